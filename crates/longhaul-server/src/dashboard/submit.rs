//! Pages that submit a job: the list of kinds and a form per kind.

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

use super::components::{duration, empty_state, token_field};
use super::form::{self, Form};
use super::layout::Section;
use super::page_context::PageContext;
use crate::api::AppState;
use crate::api::http::body;
use crate::api::http::caller::Submit;
use crate::api::http::idempotency;
use crate::api::http::multipart::MultipartBody;
use crate::jobs::submit;
use crate::problem::{KeepBody, Problem, Result};
use fields::InputForm;

pub(super) fn router() -> Router<AppState> {
    Router::new().route("/ui/submit", get(choose)).route("/ui/submit/{kind}", get(show).post(send))
}

/// Renders the list of kinds.
async fn choose(ctx: PageContext<Submit>) -> Result<Response> {
    let kinds = ctx.caller.engine.all_kinds().await?;
    let content = html! {
        h1 { "Submit a job" }
        @if kinds.is_empty() {
            (empty_state("No replica runs any kind of job.", "longhaul kinds"))
        } @else {
            ul.kinds {
                @for kind in &kinds {
                    li {
                        a href=(ctx.link(&format!("/ui/submit/{}", kind.name()), &[])) {
                            (kind.name())
                        }
                        span.soft { (kind.settings().description.as_str()) }
                    }
                }
            }
        }
    };
    Ok(ctx.page("Submit", Section::Submit, &content))
}

async fn show(ctx: PageContext<Submit>, Path(name): Path<String>) -> Result<Response> {
    let kind = find(&ctx, &name).await?;
    let as_json = ctx.param("as") == Some("json");
    let inputs = InputForm::of(&kind, as_json);
    Ok(page(&ctx, &kind, &inputs, &Form::default(), None))
}

async fn send(
    State(state): State<AppState>,
    ctx: PageContext<Submit>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let bytes_max = body::submission_bytes_max(ctx.caller.engine.limits());
    let (fields, payload) = MultipartBody::of(&headers, body)?.form(bytes_max).await?;
    let form = Form::new(fields);
    form::check(&state, &ctx.session, form.text(form::TOKEN).as_deref())?;
    let kind = find(&ctx, &name).await?;
    let inputs = InputForm::of(&kind, form.text("as").as_deref() == Some("json"));
    let sent = async {
        let (mut request, key) = request(&state, &kind, &inputs, &form)?;
        let webhook = submit::take_webhook(&state, &ctx.caller.engine, &mut request).await?;
        submit::submit_with_payload(&state, &ctx.caller, request, webhook, key, payload).await
    };
    match sent.await {
        Ok(handle) => Ok(ctx.done(&format!("/ui/jobs/{}", handle.id()), "submit")),
        Err(problem) if problem.status().is_client_error() => {
            let mut response = page(&ctx, &kind, &inputs, &form, Some(&problem));
            *response.status_mut() = problem.status();
            response.extensions_mut().insert(KeepBody);
            Ok(response)
        }
        Err(problem) => Err(problem),
    }
}

async fn find(ctx: &PageContext<Submit>, name: &str) -> Result<Kind> {
    let kinds = ctx.caller.engine.all_kinds().await?;
    let known = kinds.iter().map(|kind| kind.name().to_owned()).collect();
    let found = kinds.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| SubmitError::UnknownKind { kind: name.to_owned(), known }.into())
}

/// Converts the form into the API's submit request and the idempotency key.
fn request(
    state: &AppState,
    kind: &Kind,
    inputs: &InputForm,
    form: &Form,
) -> Result<(SubmitRequest, Option<String>)> {
    let input = inputs.read(form)?;
    let labels = form.text("labels").unwrap_or_default();
    let labels = labels.lines().map(str::trim).filter(|line| !line.is_empty());
    let label = |line: &str| {
        let pair = line.split_once('=').map(|(n, v)| (n.trim().to_owned(), v.trim().to_owned()));
        pair.ok_or_else(|| {
            Problem::invalid(format_args!("a label must be NAME=VALUE, not {line:?}"))
        })
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
    ctx: &PageContext<Submit>,
    kind: &Kind,
    inputs: &InputForm,
    form: &Form,
    error: Option<&Problem>,
) -> Response {
    let path = format!("/ui/submit/{}", kind.name());
    let content = html! {
        h1 { "Submit " code { (kind.name()) } }
        @if !kind.settings().description.is_empty() {
            p { (kind.settings().description.as_str()) }
        }
        @if let Some(problem) = error {
            p.wrong role="alert" { "Job not submitted: " (problem.detail()) "." }
        }
        form.stacked method="post" action=(ctx.link(&path, &[])) enctype="multipart/form-data"
            data-upload {
            (token_field(&ctx.session))
            (inputs.write(form))
            @if inputs.has_fields() {
                p {
                    a href=(ctx.link(&path, &[("as", "json")])) {
                        "Enter the input as JSON"
                    }
                }
            } @else if kind.settings().input_schema.is_some() {
                p { a href=(ctx.link(&path, &[])) { "Use the form" } }
            }
            (options(kind, form, error.is_some()))
            // The last field, because the server streams it to the blob store and reads no field behind it.
            @if kind.settings().accepts_payload {
                p {
                    label for="payload" { "Payload" }
                    input #payload type="file" name="payload" aria-describedby="payload-help";
                    span #payload-help.help {
                        "Input file of the job. It becomes unreadable when the job finishes."
                    }
                }
            }
            p.choices {
                button.primary { "Submit job" }
                progress data-progress hidden max="100" value="0" aria-label="Upload" {}
            }
        }
    };
    ctx.page("Submit", Section::Submit, &content)
}

fn options(kind: &Kind, form: &Form, open: bool) -> Markup {
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
    let (attempts, timeout) =
        (kind.settings().retry.max_attempts, duration(kind.settings().timeout));
    html! {
        details #options open[open] {
            summary { "Queue, idempotency key, labels and more" }
            (field("queue", "Queue", &format!("Default: {}.", kind.settings().queue)))
            (field("idempotency-key", "Idempotency key", "A repeated key returns the existing job."))
            (field("priority", "Priority", "Whole number. Higher runs first. Default: 0."))
            (field("delay", "Delay", "For example 30s, 5m or 2h. Default: no delay."))
            (field("max-attempts", "Attempts", &format!("Default: {attempts}.")))
            (field("timeout", "Attempt timeout", &format!("Default: {timeout}.")))
            p {
                label for="labels" { "Labels" }
                textarea #labels name="labels" rows="2" aria-describedby="labels-help" {
                    (value("labels"))
                }
                span #labels-help.help { "One name=value per line." }
            }
        }
    }
}
