//! Bulk actions on the selected jobs or on all matching jobs.

use axum::extract::{Path, State};
use axum::response::Response;
use longhaul::{BulkCommand, JobId};
use longhaul_client::wire::JobFilter;
use maud::{Markup, html};
use url::form_urlencoded;

use super::results::SearchResults;
use super::search::JobSearch;
use crate::api::AppState;
use crate::api::http::caller::{Caller, Control, Read, Submit};
use crate::dashboard::error_page::redirect;
use crate::dashboard::form::Form;
use crate::dashboard::page_context::PageContext;
use crate::jobs::control;
use crate::problem::{Code, Problem, Result};

/// Labels and effect of a bulk action; `name` is its path segment.
struct BulkButton {
    name: &'static str,
    button: &'static str,
    effect: &'static str,
    verb: &'static str,
}

const CANCEL: BulkButton = BulkButton {
    name: "cancel",
    button: "Cancel…",
    effect: "Pending jobs are cancelled at once. Running jobs stop after their current step, or are \
             killed when the grace period ends. Finished jobs do not change.",
    verb: "Cancel",
};
const RESUME: BulkButton = BulkButton {
    name: "resume",
    button: "Resume…",
    effect: "Failed and cancelled jobs are queued again. Each continues after its last finished step, \
             with its original number of attempts. Other jobs, and jobs whose payload is deleted, do \
             not change.",
    verb: "Resume",
};
const PURGE: BulkButton = BulkButton {
    name: "purge",
    button: "Purge…",
    effect: "Finished jobs are deleted with their inputs, results, artifacts and histories. This cannot \
             be undone. Unfinished jobs do not change.",
    verb: "Purge",
};

/// Renders the buttons above the list, each with its confirmation dialog.
pub(super) fn bar(ctx: &PageContext<Read>, search: &JobSearch, results: &SearchResults) -> Markup {
    let choices =
        if super::may_resume(ctx) { vec![CANCEL, RESUME, PURGE] } else { vec![CANCEL, PURGE] };
    html! {
        div.bar role="group" aria-label="Change selected jobs" {
            span.soft data-selected="job" { "No jobs selected" }
            @for button in choices { (confirm(ctx, search, results, &button)) }
        }
    }
}

fn confirm(
    ctx: &PageContext<Read>,
    search: &JobSearch,
    results: &SearchResults,
    button: &BulkButton,
) -> Markup {
    let BulkButton { name, button, effect, verb } = button;
    let (id, title) = (format!("bulk-{name}"), format!("bulk-{name}-title"));
    let action = ctx.link(&format!("/ui/jobs/bulk/{name}"), &[]);
    // The number of matching jobs is known only if all of them are on this page.
    let is_complete = results.next.is_none() && !search.is_later_page();
    let matching = if is_complete { format!("{} ", results.jobs.len()) } else { String::new() };
    html! {
        button type="button" popovertarget=(id) { (button) }
        div.confirm #(id) popover role="dialog" aria-labelledby=(title) {
            h2 #(title) { (verb) " jobs?" }
            p { (effect) }
            p.choices {
                button.primary[*name != "purge"].danger[*name == "purge"]
                    formaction=(action) name="which" value="selected" data-verb=(verb) {
                    (verb) " selected"
                }
                @if search.text.is_none() {
                    button formaction=(action) name="which" value="all" {
                        (verb) " all " (matching) "matching"
                    }
                }
                button type="button" popovertarget=(id) popovertargetaction="hide" { "Keep as is" }
            }
        }
    }
}

/// Performs a bulk action and redirects to the list.
pub(in crate::dashboard) async fn bulk(
    State(state): State<AppState>,
    Path(action): Path<String>,
    ctx: PageContext<Control>,
    resuming: Result<PageContext<Submit>>,
    form: Form,
) -> Result<Response> {
    let bulk_action = match action.as_str() {
        "cancel" => BulkAction::Cancel(&ctx.caller),
        "purge" => BulkAction::Purge(&ctx.caller),
        "resume" => BulkAction::Resume(Box::new(resuming?.caller)),
        _ => return Err(Problem::new(Code::NotFound, "unknown bulk action")),
    };
    let count = match form.text("which").as_deref() {
        Some("all") => {
            bulk_action.apply_to_filter(parse_search(&state, &ctx, &form)?.to_wire()).await?
        }
        Some("selected") => bulk_action.apply_to_each(selected(&form)?).await?,
        Some(_) | None => return Err(Problem::invalid("which must be selected or all")),
    };
    let query = filter(&form);
    let count = count.to_string();
    let mut query: Vec<(&str, &str)> =
        query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    query.extend([("did", action.as_str()), ("count", count.as_str())]);
    Ok(redirect(&ctx.link("/ui/jobs", &query)))
}

/// A bulk action with the caller that has the permission for it.
enum BulkAction<'a> {
    Cancel(&'a Caller<Control>),
    Purge(&'a Caller<Control>),
    Resume(Box<Caller<Submit>>),
}

impl BulkAction<'_> {
    /// Applies the action to these jobs and returns the number of changed ones. Jobs whose status no longer
    /// allows it are skipped.
    async fn apply_to_each(&self, ids: Vec<JobId>) -> Result<u64> {
        let mut count = 0;
        for id in ids {
            let changed = match self {
                Self::Cancel(caller) => control::cancel(caller, id).await.map(|_| ()),
                Self::Purge(caller) => control::purge(caller, id).await,
                Self::Resume(caller) => control::resume(caller, id).await.map(|_| ()),
            };
            match changed {
                Ok(()) => count += 1,
                Err(problem) if is_skipped(problem.code()) => {}
                Err(problem) => return Err(problem),
            }
        }
        Ok(count)
    }

    async fn apply_to_filter(&self, filter: JobFilter) -> Result<u64> {
        match self {
            Self::Cancel(caller) => control::bulk(caller, filter, BulkCommand::Cancel).await,
            Self::Purge(caller) => control::bulk(caller, filter, BulkCommand::Purge).await,
            Self::Resume(caller) => control::bulk(caller, filter, BulkCommand::Resume).await,
        }
    }
}

fn is_skipped(code: Code) -> bool {
    [Code::WrongStatus, Code::PayloadPurged, Code::JobNotFound, Code::JobGone].contains(&code)
}

fn selected(form: &Form) -> Result<Vec<JobId>> {
    let ids = form.all("job").map(str::parse).collect::<Result<Vec<JobId>, ()>>();
    let ids = ids.map_err(|()| Problem::invalid("a selected id is not a job id"))?;
    if ids.is_empty() {
        return Err(Problem::invalid("no jobs selected"));
    }
    Ok(ids)
}

fn parse_search(state: &AppState, ctx: &PageContext<Control>, form: &Form) -> Result<JobSearch> {
    let search = JobSearch::parse(&filter(form), state, ctx.caller.engine.now())?;
    if search.text.is_some() {
        return Err(Problem::invalid("a text search allows actions on selected jobs only"));
    }
    Ok(search)
}

/// Returns the filter of the list from the hidden form field.
fn filter(form: &Form) -> Vec<(String, String)> {
    let text = form.text("filter").unwrap_or_default();
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}
