//! Changing many jobs: those that were selected, or all that match.

use axum::extract::{Path, State};
use axum::response::Response;
use longhaul::{BulkCommand, JobId};
use longhaul_client::wire::JobFilter;
use maud::{Markup, html};
use url::form_urlencoded;

use super::filter::Wish;
use crate::api::AppState;
use crate::api::http::caller::{Caller, Control, Read, Submit};
use crate::api::jobs::{bulk, control};
use crate::dashboard::form::{Form, invalid};
use crate::dashboard::refusal::redirect;
use crate::dashboard::view::View;
use crate::problem::{Code, Problem};

/// What can be done: its name in addresses, and on its buttons.
struct Choice {
    name: &'static str,
    button: &'static str,
    effect: &'static str,
    confirm: &'static str,
}

const CANCEL: Choice = Choice {
    name: "cancel",
    button: "Cancel…",
    effect: "Jobs that wait are cancelled at once. Running ones are asked to stop, start no further \
             step, and are stopped hard if they take too long. What has ended stays as it is.",
    confirm: "Cancel jobs",
};
const RESUME: Choice = Choice {
    name: "resume",
    button: "Resume…",
    effect: "Failed and cancelled jobs go back in line, each after its last finished step and with as \
             many further attempts as it had at first. The others stay as they are, as do jobs whose \
             payload is gone.",
    confirm: "Resume jobs",
};
const PURGE: Choice = Choice {
    name: "purge",
    button: "Purge…",
    effect: "Finished jobs are deleted with their inputs, results, artifacts and histories. This cannot \
             be undone. Jobs that have not ended stay.",
    confirm: "Purge jobs",
};

/// The buttons above the list, each with its question.
pub(super) fn bar(view: &View<Read>, wish: &Wish) -> Markup {
    let choices =
        if super::may_resume(view) { vec![CANCEL, RESUME, PURGE] } else { vec![CANCEL, PURGE] };
    html! {
        div.bar role="group" aria-label="Change selected jobs" {
            span.soft data-selected="job" { "Select jobs to change them" }
            @for choice in choices { (ask(view, wish, &choice)) }
        }
    }
}

fn ask(view: &View<Read>, wish: &Wish, choice: &Choice) -> Markup {
    let Choice { name, button, effect, confirm } = choice;
    let (id, title) = (format!("bulk-{name}"), format!("bulk-{name}-title"));
    let action = view.link(&format!("/ui/jobs/bulk/{name}"), &[]);
    html! {
        button type="button" popovertarget=(id) { (button) }
        div.ask #(id) popover role="dialog" aria-labelledby=(title) {
            h2 #(title) { (confirm) "?" }
            p { (effect) }
            p.choices {
                button.primary[*name != "purge"].danger[*name == "purge"]
                    formaction=(action) name="which" value="selected" { (confirm) ": the selected" }
                @if wish.text.is_none() {
                    button formaction=(action) name="which" value="all" {
                        (confirm) ": all that match the filter"
                    }
                }
                button type="button" popovertarget=(id) popovertargetaction="hide" { "Leave them" }
            }
        }
    }
}

/// Does it.
pub(in crate::dashboard) async fn bulk(
    State(state): State<AppState>,
    Path(action): Path<String>,
    view: View<Control>,
    resuming: Result<View<Submit>, Problem>,
    form: Form,
) -> Result<Response, Problem> {
    let hand = match action.as_str() {
        "cancel" => Hand::Cancel(&view.caller),
        "purge" => Hand::Purge(&view.caller),
        "resume" => Hand::Resume(Box::new(resuming?.caller)),
        _ => return Err(Problem::new(Code::NotFound, "there is no such change")),
    };
    let count = match form.text("which").as_deref() {
        Some("all") => hand.change_all(wish(&state, &view, &form)?.to_wire()).await?,
        Some("selected") => hand.change_each(selected(&form)?).await?,
        Some(_) | None => return Err(invalid("say which jobs: selected or all".to_owned())),
    };
    let query = filter(&form);
    let count = count.to_string();
    let mut query: Vec<(&str, &str)> =
        query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    query.extend([("did", action.as_str()), ("count", count.as_str())]);
    Ok(redirect(&view.link("/ui/jobs", &query)))
}

/// What is done, and in whose name.
enum Hand<'a> {
    Cancel(&'a Caller<Control>),
    Purge(&'a Caller<Control>),
    Resume(Box<Caller<Submit>>),
}

impl Hand<'_> {
    /// Changes these, and says how many it was. Jobs that have moved on meanwhile stay as they are.
    async fn change_each(&self, ids: Vec<JobId>) -> Result<u64, Problem> {
        let mut count = 0;
        for id in ids {
            let changed = match self {
                Self::Cancel(caller) => control::cancel(caller, id).await.map(|_| ()),
                Self::Purge(caller) => control::purge(caller, id).await,
                Self::Resume(caller) => control::resume(caller, id).await.map(|_| ()),
            };
            match changed {
                Ok(()) => count += 1,
                Err(problem) if is_passed_over(problem.code()) => {}
                Err(problem) => return Err(problem),
            }
        }
        Ok(count)
    }

    async fn change_all(&self, filter: JobFilter) -> Result<u64, Problem> {
        match self {
            Self::Cancel(caller) => bulk::for_filter(caller, filter, BulkCommand::Cancel).await,
            Self::Purge(caller) => bulk::for_filter(caller, filter, BulkCommand::Purge).await,
            Self::Resume(caller) => bulk::for_filter(caller, filter, BulkCommand::Resume).await,
        }
    }
}

fn is_passed_over(code: Code) -> bool {
    [Code::WrongStatus, Code::PayloadPurged, Code::JobNotFound, Code::JobGone].contains(&code)
}

fn selected(form: &Form) -> Result<Vec<JobId>, Problem> {
    let ids = form.all("job").map(str::parse).collect::<Result<Vec<JobId>, ()>>();
    let ids = ids.map_err(|()| invalid("what is selected is not a job's id".to_owned()))?;
    if ids.is_empty() {
        return Err(invalid("no job is selected".to_owned()));
    }
    Ok(ids)
}

fn wish(state: &AppState, view: &View<Control>, form: &Form) -> Result<Wish, Problem> {
    let wish = Wish::read(&filter(form), state, view.caller.engine.now())?;
    if wish.text.is_some() {
        return Err(invalid("select the jobs that a text was found in".to_owned()));
    }
    Ok(wish)
}

/// The list's own filter, as the form carries it.
fn filter(form: &Form) -> Vec<(String, String)> {
    let text = form.text("filter").unwrap_or_default();
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}
