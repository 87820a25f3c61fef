//! Submitting a job by hand: a form for each kind.

mod fields;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use longhaul::{Kind, SubmitError};
use longhaul_client::DurationText;
use longhaul_client::wire::SubmitRequest;
use maud::{Markup, html};

use super::form::{self, Form};
use super::layout::Place;
use super::parts::{empty, took};
use super::view::View;
use crate::api::AppState;
use crate::api::http::body;
use crate::api::http::caller::Submit;
use crate::api::http::idempotency;
use crate::api::http::multipart::Parts;
use crate::api::jobs::submit;
use crate::problem::{KeepBody, Problem};
use fields::Inputs;

pub(super) fn router() -> Router<AppState> {
    Router::new().route("/ui/submit", get(choose)).route("/ui/submit/{kind}", get(show).post(send))
}

/// Which kind.
async fn choose(view: View<Submit>) -> Result<Response, Problem> {
    let kinds = view.caller.engine.all_kinds().await?;
    let content = html! {
        h1 { "Submit a job" }
        @if kinds.is_empty() {
            (empty("No replica declares a kind.", "longhaul kinds"))
        } @else {
            ul.kinds {
                @for kind in &kinds {
                    li {
                        a href=(view.link(&format!("/ui/submit/{}", kind.name()), &[])) {
                            (kind.name())
                        }
                        span.soft { (kind.settings().description.as_str()) }
                    }
                }
            }
        }
    };
    Ok(view.page("Submit", Place::Submit, &content))
}

async fn show(view: View<Submit>, Path(name): Path<String>) -> Result<Response, Problem> {
    let kind = find(&view, &name).await?;
    let as_json = view.asked("as") == Some("json");
    let inputs = Inputs::of(&kind, as_json);
    Ok(page(&view, &kind, &inputs, &Form::default(), None))
}

async fn send(
    State(state): State<AppState>,
    view: View<Submit>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let bytes_max = body::submission_bytes_max(view.caller.engine.limits());
    let (fields, payload) = Parts::of(&headers, body)?.form(bytes_max).await?;
    let form = Form::new(fields);
    form::check(&state, &view.session, form.text(form::TOKEN).as_deref())?;
    let kind = find(&view, &name).await?;
    let inputs = Inputs::of(&kind, form.text("as").as_deref() == Some("json"));
    let sent = async {
        let (mut request, key) = request(&state, &kind, &inputs, &form)?;
        let webhook = submit::webhook(&state, &view.caller.engine, &mut request).await?;
        submit::submit_whole(&state, &view.caller, request, webhook, key, payload).await
    };
    match sent.await {
        Ok(handle) => Ok(view.done(&format!("/ui/jobs/{}", handle.id()), "submit")),
        Err(problem) if problem.status().is_client_error() => {
            let mut again = page(&view, &kind, &inputs, &form, Some(&problem));
            *again.status_mut() = problem.status();
            again.extensions_mut().insert(KeepBody);
            Ok(again)
        }
        Err(problem) => Err(problem),
    }
}

async fn find(view: &View<Submit>, name: &str) -> Result<Kind, Problem> {
    let kinds = view.caller.engine.all_kinds().await?;
    let known = kinds.iter().map(|kind| kind.name().to_owned()).collect();
    let found = kinds.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| SubmitError::UnknownKind { kind: name.to_owned(), known }.into())
}

/// From the form to what the API takes.
fn request(
    state: &AppState,
    kind: &Kind,
    inputs: &Inputs,
    form: &Form,
) -> Result<(SubmitRequest, Option<String>), Problem> {
    let input = inputs.read(form)?;
    let labels = form.text("labels").unwrap_or_default();
    let labels = labels.lines().map(str::trim).filter(|line| !line.is_empty());
    let label = |line: &str| {
        let pair = line.split_once('=').map(|(n, v)| (n.trim().to_owned(), v.trim().to_owned()));
        pair.ok_or_else(|| form::invalid(format!("a label is NAME=VALUE, not {line:?}")))
    };
    let request = SubmitRequest {
        kind: kind.name().to_owned(),
        input,
        queue: form.text("queue"),
        priority: form.number("priority")?,
        run_at: None,
        delay: form.duration("delay")?.map(DurationText),
        max_attempts: form.number("max-attempts")?,
        timeout: form.duration("timeout")?.map(DurationText),
        labels: labels.map(label).collect::<Result<_, _>>()?,
        retention: None,
        webhook: None,
    };
    let key = form.text("idempotency-key");
    Ok((request, idempotency::checked(key, state.settings.require_idempotency_key)?))
}

fn page(
    view: &View<Submit>,
    kind: &Kind,
    inputs: &Inputs,
    form: &Form,
    wrong: Option<&Problem>,
) -> Response {
    let path = format!("/ui/submit/{}", kind.name());
    let content = html! {
        h1 { "Submit " code { (kind.name()) } }
        @if !kind.settings().description.as_str().is_empty() { p { (kind.settings().description.as_str()) } }
        @if let Some(problem) = wrong {
            p.wrong role="alert" { "The job was not submitted: " (problem.detail()) "." }
        }
        form.stacked method="post" action=(view.link(&path, &[])) enctype="multipart/form-data"
            data-upload {
            input type="hidden" name=(form::TOKEN) value=(view.session.token);
            (inputs.write(form))
            @if inputs.has_fields() {
                p {
                    a href=(view.link(&path, &[("as", "json")])) {
                        "Write the input as JSON instead"
                    }
                }
            } @else if kind.settings().input_schema.as_deref().is_some() {
                p { a href=(view.link(&path, &[])) { "Fill in a form instead" } }
            }
            (more(kind, form, wrong.is_some()))
            // Last of all fields: it is stored as it comes, and what is behind it comes too late.
            @if kind.settings().accepts_payload {
                p {
                    label for="payload" { "Payload" }
                    input #payload type="file" name="payload" aria-describedby="payload-help";
                    span #payload-help.help {
                        "A file that the job gets; it is unreadable from the end of the job on."
                    }
                }
            }
            p.choices {
                button.primary { "Submit the job" }
                progress data-progress hidden max="100" value="0" aria-label="Upload" {}
            }
        }
    };
    view.page("Submit", Place::Submit, &content)
}

fn more(kind: &Kind, form: &Form, open: bool) -> Markup {
    let value = |name: &str| form.text(name).unwrap_or_default();
    let field = |id: &str, name: &str, hint: &str| {
        html! {
            p {
                label for=(id) { (name) }
                input id=(id) name=(id) value=(value(id)) aria-describedby=(format!("{id}-help"));
                span.help id=(format!("{id}-help")) { (hint) }
            }
        }
    };
    let (attempts, timeout) = (kind.settings().retry.max_attempts, took(kind.settings().timeout));
    html! {
        details #more open[open] {
            summary { "Queue, key, labels and more" }
            (field("queue", "Queue", &format!("{} if left empty.", kind.settings().queue.clone())))
            (field("idempotency-key", "Idempotency key", "Under one that is known, no job is made."))
            (field("priority", "Priority", "A whole number, 0 if left empty. Higher goes first."))
            (field("delay", "Delay", "Such as 30s, 5m or 2h. At once if left empty."))
            (field("max-attempts", "Attempts", &format!("{attempts} if left empty.")))
            (field("timeout", "Timeout of an attempt", &format!("{timeout} if left empty.")))
            p {
                label for="labels" { "Labels" }
                textarea #labels name="labels" rows="2" aria-describedby="labels-help" {
                    (value("labels"))
                }
                span #labels-help.help { "One a line, as name=value." }
            }
        }
    }
}
