//! Page of one job: status, error, timeline, result, deliveries and receipt.

mod actions;
mod downloads;
mod sections;
mod timeline;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use longhaul::JobId;
use longhaul_client::wire::{Job, Status};
use maud::{Markup, html};

use super::components::{self, live_section, status, timestamp, truncated};
use super::jobs::run_duration;
use super::json_tree;
use super::layout::Section;
use super::page_context::PageContext;
use crate::api::http::caller::Read;
use crate::api::http::params::JobPath;
use crate::api::jobs::events;
use crate::api::{AppState, queues};
use crate::jobs::details::{JobDetails, details};
use crate::problem::{Code, KeepBody, Result};

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/ui/jobs/{id}", get(show))
        .route("/ui/jobs/{id}/events", get(watch))
        .route("/ui/jobs/{id}/input", get(downloads::input))
        .route("/ui/jobs/{id}/result", get(downloads::result))
        .route("/ui/jobs/{id}/artifacts/{name}", get(downloads::artifact))
        .route("/ui/jobs/{id}/cancel", post(actions::cancel))
        .route("/ui/jobs/{id}/resume", post(actions::resume))
        .route("/ui/jobs/{id}/fork", post(actions::fork))
        .route("/ui/jobs/{id}/purge", post(actions::purge))
        .route("/ui/jobs/{id}/deliveries/{delivery}/resend", post(actions::resend))
}

async fn show(ctx: PageContext<Read>, JobPath(id): JobPath) -> Result<Response> {
    let details = match details(&ctx.caller, id).await {
        Err(problem) if problem.code() == Code::JobGone => return gone(&ctx, id).await,
        read => read?,
    };
    let deliveries = sections::deliveries(&ctx, id).await?;
    let receipt = sections::receipt(&ctx, id).await?;
    let wait_reason = wait_reason(&ctx, &details.job).await?;
    let content = write(&ctx, &details, wait_reason.as_ref(), &deliveries, &receipt);
    let title = format!("{} {id}", details.job.kind);
    Ok(ctx.page(&title, Section::Jobs, &content))
}

fn write(
    ctx: &PageContext<Read>,
    details: &JobDetails,
    wait_reason: Option<&Markup>,
    deliveries: &Markup,
    receipt: &Markup,
) -> Markup {
    let (job, now) = (&details.job, ctx.caller.engine.now());
    let of = |part: &str| ctx.link(&format!("/ui/jobs/{}/{part}", job.job_id), &[]);
    let watched = (!job.status.is_terminal()).then(|| of("events"));
    let result = html! {
        @if let Some(result) = &job.result {
            (json_tree::show("result", result, &of("result")))
        } @else {
            p.soft { (no_result(job.status)) }
        }
    };
    html! {
        div #job data-events=[watched] {
            section #head data-live aria-label="Job" {
                h1 { span.soft { (job.kind) } " " code { (job.job_id) } }
                p.headline {
                    (status(job.status))
                    @if let Some(phase) = &job.phase { span.phase { (truncated(phase, 100)) } }
                    @if job.attempt == 0 {
                        span { "Not started · up to " (job.max_attempts) " attempts" }
                    } @else {
                        span { "Attempt " (job.attempt) " of " (job.max_attempts) }
                    }
                    @if let Some(started_at) = &job.started_at {
                        span {
                            @if job.status.is_terminal() { "Duration " } @else { "Running for " }
                            (run_duration(started_at, job.completed_at.as_ref(), now))
                        }
                    }
                }
                @if let (Some(progress), Status::Running) = (&job.progress, job.status) {
                    p { (components::progress(progress)) }
                }
                (actions::buttons(ctx, details))
                (sections::error_or_due(job, now))
                @if let Some(reason) = wait_reason { p { (reason) } }
            }
            (live_section("timeline", "Timeline", timeline::show(ctx, details, now)))
            (live_section("result", "Result", result))
            section #input aria-labelledby="input-title" {
                h2 #input-title { "Input" }
                @if let Some(input) = &details.input {
                    (json_tree::show("input", input, &of("input")))
                }
            }
            (live_section("artifacts", "Artifacts", sections::artifacts(ctx, job)))
            (live_section("deliveries", "Deliveries", deliveries))
            (live_section("facts", "Details", sections::facts(ctx, details)))
            (live_section("history", "History", sections::history(&details.events)))
            (live_section("receipt", "Receipt", receipt))
        }
    }
}

/// Returns why a due job is not running: its queue is paused, at its limit, or has other pending jobs.
async fn wait_reason(ctx: &PageContext<Read>, job: &Job) -> Result<Option<Markup>> {
    let engine = &ctx.caller.engine;
    if job.status != Status::Pending || timestamp(&job.run_at) > engine.now() {
        return Ok(None);
    }
    let queues = queues::list(engine).await?;
    let Some(queue) = queues.iter().find(|queue| queue.name == job.queue) else { return Ok(None) };
    let name = html! { code { (job.queue) } };
    Ok(Some(match queue.running_max {
        _ if queue.paused => html! { "Waiting: queue " (name) " is paused." },
        Some(max) if queue.running >= u64::from(max) => html! {
            "Waiting: queue " (name) " is at its limit (" (components::count(u64::from(max)))
            " running)."
        },
        Some(_) | None => html! {
            "Waiting: queue " (name) " has " (components::count(queue.pending)) " pending jobs."
        },
    }))
}

fn no_result(status: Status) -> &'static str {
    match status {
        Status::Pending | Status::Running | Status::Waiting => "Not finished yet.",
        Status::Failed => "No result: the job failed. See the error above.",
        Status::Cancelled => "No result: the job was cancelled.",
        Status::Completed => "No result.",
    }
}

/// Renders the page of a deleted job, of which only the receipt is left.
async fn gone(ctx: &PageContext<Read>, id: JobId) -> Result<Response> {
    let receipt = sections::receipt(ctx, id).await?;
    let content = html! {
        h1 { code { (id) } }
        p.notice { "This job no longer exists. It was purged, or its retention ended." }
        section #receipt aria-labelledby="receipt-title" {
            h2 #receipt-title { "Receipt" }
            (receipt)
        }
    };
    let mut response = ctx.page("Deleted job", Section::Jobs, &content);
    *response.status_mut() = StatusCode::GONE;
    response.extensions_mut().insert(KeepBody);
    Ok(response)
}

/// Streams the job's events to its page. The API's own stream ignores sessions.
async fn watch(
    State(state): State<AppState>,
    ctx: PageContext<Read>,
    JobPath(id): JobPath,
    headers: HeaderMap,
) -> Result<Response> {
    let authorization = ctx.caller.authorization_with(ctx.session.credential.clone());
    events::watch(state, ctx.caller, id, &headers, authorization).await
}
