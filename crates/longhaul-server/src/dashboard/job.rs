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
use longhaul::job::{Record, Step};
use longhaul::store::StoreError;
use longhaul::{JobId, Status};
use maud::{Markup, html};

use super::components::{self, status, truncated};
use super::jobs::run_duration;
use super::json_tree;
use super::layout::Section;
use super::page_context::PageContext;
use crate::api::AppState;
use crate::api::http::caller::Read;
use crate::api::http::params::JobPath;
use crate::api::jobs::events;
use crate::problem::{KeepBody, Problem};

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

/// Data of a job's page.
struct JobPageData {
    record: Record,
    steps: Vec<Step>,
    input: Option<longhaul::job::Json>,
    /// Reason why a due job is not running.
    wait_reason: Option<Markup>,
}

async fn show(ctx: PageContext<Read>, JobPath(id): JobPath) -> Result<Response, Problem> {
    let engine = &ctx.caller.engine;
    let record = match engine.job(id).await {
        Ok(record) => record,
        Err(StoreError::Gone) => return gone(&ctx, id).await,
        Err(error) => return Err(error.into()),
    };
    let steps = engine.steps(id).await?;
    let input = match engine.input(id).await {
        Ok(input) => Some(input),
        // The job was deleted since it was read.
        Err(StoreError::NotFound | StoreError::Gone) => None,
        Err(error) => return Err(error.into()),
    };
    let deliveries = sections::deliveries(&ctx, id).await?;
    let receipt = sections::receipt(&ctx, id).await?;
    let wait_reason = wait_reason(&ctx, &record).await?;
    let data = JobPageData { record, steps, input, wait_reason };
    let content = write(&ctx, &data, &deliveries, &receipt);
    let title = format!("{} {}", data.record.job.kind, id);
    Ok(ctx.page(&title, Section::Jobs, &content))
}

fn write(
    ctx: &PageContext<Read>,
    data: &JobPageData,
    deliveries: &Markup,
    receipt: &Markup,
) -> Markup {
    let JobPageData { record, steps, input, wait_reason } = data;
    let (job, now) = (&record.job, ctx.caller.engine.now());
    let of = |part: &str| ctx.link(&format!("/ui/jobs/{}/{part}", job.id), &[]);
    let watched = (!job.status.is_terminal()).then(|| of("events"));
    html! {
        div #job data-events=[watched] {
            section #head data-live aria-label="Job" {
                h1 { span.soft { (job.kind.as_str()) } " " code { (job.id) } }
                p.headline {
                    (status(job.status))
                    @if let Some(phase) = &job.phase { span.phase { (truncated(phase, 100)) } }
                    @if job.attempt == 0 {
                        span { "Not started · up to " (job.max_attempts) " attempts" }
                    } @else {
                        span { "Attempt " (job.attempt) " of " (job.max_attempts) }
                    }
                    @if job.started_at.is_some() {
                        span {
                            @if job.status.is_terminal() { "Duration " } @else { "Running for " }
                            (run_duration(job, now))
                        }
                    }
                }
                @if let (Some(progress), Status::Running) = (&job.progress, job.status) {
                    p { (components::progress(progress)) }
                }
                (actions::buttons(ctx, record))
                (sections::error_or_due(job, now))
                @if let Some(reason) = wait_reason { p { (reason) } }
            }
            section #timeline data-live aria-labelledby="timeline-title" {
                h2 #timeline-title { "Timeline" }
                (timeline::show(ctx, record, steps, now))
            }
            section #result data-live aria-labelledby="result-title" {
                h2 #result-title { "Result" }
                @if let Some(result) = &record.result {
                    (json_tree::show("result", result, &of("result")))
                } @else {
                    p.soft { (no_result(job.status)) }
                }
            }
            section #input aria-labelledby="input-title" {
                h2 #input-title { "Input" }
                @if let Some(input) = input { (json_tree::show("input", input, &of("input"))) }
            }
            (sections::artifacts(ctx, job))
            section #deliveries data-live aria-labelledby="deliveries-title" {
                h2 #deliveries-title { "Deliveries" }
                (deliveries)
            }
            section #facts data-live aria-labelledby="facts-title" {
                h2 #facts-title { "Details" }
                (sections::facts(ctx, job))
            }
            section #history data-live aria-labelledby="history-title" {
                h2 #history-title { "History" }
                (sections::history(record))
            }
            section #receipt data-live aria-labelledby="receipt-title" {
                h2 #receipt-title { "Receipt" }
                (receipt)
            }
        }
    }
}

/// Returns why a due job is not running: its queue is paused, at its limit, or has other pending jobs.
async fn wait_reason(ctx: &PageContext<Read>, record: &Record) -> Result<Option<Markup>, Problem> {
    let (job, engine) = (&record.job, &ctx.caller.engine);
    if job.status != Status::Pending || job.run_at > engine.now() {
        return Ok(None);
    }
    let queues = engine.queues().await?;
    let Some(queue) = queues.iter().find(|queue| queue.name == job.queue) else { return Ok(None) };
    let running_max = engine.flow_limits().queue(&job.queue).running_max;
    let name = html! { code { (job.queue.as_str()) } };
    Ok(Some(match running_max {
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
async fn gone(ctx: &PageContext<Read>, id: JobId) -> Result<Response, Problem> {
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
) -> Result<Response, Problem> {
    let standing = ctx.caller.authorization_with(ctx.session.credential.clone());
    events::watch(state, ctx.caller, id, &headers, standing).await
}
