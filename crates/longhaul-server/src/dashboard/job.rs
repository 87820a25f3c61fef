//! One job: how it stands, why, and what it left.

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

use super::jobs::lasted;
use super::layout::Place;
use super::parts::{self, cut, status};
use super::view::View;
use super::viewer;
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

/// A job with what its page shows of it.
struct Whole {
    record: Record,
    steps: Vec<Step>,
    input: Option<longhaul::job::Json>,
    /// Why it does not run though it is due.
    held_back: Option<String>,
}

async fn show(view: View<Read>, JobPath(id): JobPath) -> Result<Response, Problem> {
    let engine = &view.caller.engine;
    let record = match engine.job(id).await {
        Ok(record) => record,
        Err(StoreError::Gone) => return gone(&view, id).await,
        Err(error) => return Err(error.into()),
    };
    let steps = engine.steps(id).await?;
    let input = match engine.input(id).await {
        Ok(input) => Some(input),
        // Deleted in this very moment.
        Err(StoreError::NotFound | StoreError::Gone) => None,
        Err(error) => return Err(error.into()),
    };
    let deliveries = sections::deliveries(&view, id).await?;
    let receipt = sections::receipt(&view, id).await?;
    let held_back = held_back(&view, &record).await?;
    let whole = Whole { record, steps, input, held_back };
    let content = write(&view, &whole, &deliveries, &receipt);
    let title = format!("{} {}", whole.record.job.kind, id);
    Ok(view.page(&title, Place::Jobs, &content))
}

fn write(view: &View<Read>, whole: &Whole, deliveries: &Markup, receipt: &Markup) -> Markup {
    let Whole { record, steps, input, held_back } = whole;
    let (job, now) = (&record.job, view.caller.engine.now());
    let of = |part: &str| view.link(&format!("/ui/jobs/{}/{part}", job.id), &[]);
    let watched = (!job.status.is_terminal()).then(|| of("events"));
    html! {
        div #job data-events=[watched] {
            section #head data-live aria-label="The job" {
                h1 { span.soft { (job.kind.as_str()) } " " code { (job.id) } }
                p.standing {
                    (status(job.status))
                    @if let Some(phase) = &job.phase { span.phase { (cut(phase, 100)) } }
                    @if job.attempt == 0 {
                        span { "not begun, up to " (job.max_attempts) " attempts" }
                    } @else {
                        span { "attempt " (job.attempt) " of " (job.max_attempts) }
                    }
                    @if job.started_at.is_some() {
                        span { @if job.status.is_terminal() { "took " } @else { "for " } (lasted(job, now)) }
                    }
                }
                @if let (Some(progress), Status::Running) = (&job.progress, job.status) {
                    p { (parts::progress(progress)) }
                }
                (actions::buttons(view, record))
                (sections::why(job, now))
                @if let Some(reason) = held_back { p { (reason) } }
            }
            section #timeline data-live aria-labelledby="timeline-title" {
                h2 #timeline-title { "Timeline" }
                (timeline::show(view, record, steps, now))
            }
            section #result data-live aria-labelledby="result-title" {
                h2 #result-title { "Result" }
                @if let Some(result) = &record.result {
                    (viewer::json("result", result, &of("result")))
                } @else {
                    p.soft { (no_result(job.status)) }
                }
            }
            section #input aria-labelledby="input-title" {
                h2 #input-title { "Input" }
                @if let Some(input) = input { (viewer::json("input", input, &of("input"))) }
            }
            (sections::artifacts(view, job))
            section #deliveries data-live aria-labelledby="deliveries-title" {
                h2 #deliveries-title { "Deliveries" }
                (deliveries)
            }
            section #facts data-live aria-labelledby="facts-title" {
                h2 #facts-title { "About it" }
                (sections::facts(view, job))
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

/// What its queue has to do with a job that waits.
async fn held_back(view: &View<Read>, record: &Record) -> Result<Option<String>, Problem> {
    let (job, engine) = (&record.job, &view.caller.engine);
    if job.status != Status::Pending || job.run_at > engine.now() {
        return Ok(None);
    }
    let queues = engine.queues().await?;
    let Some(queue) = queues.iter().find(|queue| queue.name == job.queue) else { return Ok(None) };
    let most = engine.flow_limits().queue(&job.queue).running_max;
    Ok(match most {
        _ if queue.paused => Some(format!("It waits because its queue {} is paused.", job.queue)),
        Some(most) if queue.running >= u64::from(most) => {
            Some(format!("It waits because {most} of {most} jobs of its queue {} run.", job.queue))
        }
        Some(_) | None => {
            Some(format!("{} are pending in its queue {}.", queue.pending, job.queue))
        }
    })
}

fn no_result(status: Status) -> &'static str {
    match status {
        Status::Pending | Status::Running | Status::Waiting => "The job has not ended.",
        Status::Failed => "A failed job has no result: see its error above.",
        Status::Cancelled => "A cancelled job has no result.",
        Status::Completed => "It has none.",
    }
}

/// What is left to say of a job that was deleted.
async fn gone(view: &View<Read>, id: JobId) -> Result<Response, Problem> {
    let receipt = sections::receipt(view, id).await?;
    let content = html! {
        h1 { code { (id) } }
        p.notice { "This job is no longer kept: it was deleted, or its time was over." }
        section #receipt aria-labelledby="receipt-title" {
            h2 #receipt-title { "Receipt" }
            (receipt)
        }
    };
    let mut response = view.page("A job that is gone", Place::Jobs, &content);
    *response.status_mut() = StatusCode::GONE;
    response.extensions_mut().insert(KeepBody);
    Ok(response)
}

/// A job's events for its page: the API's own, for whoever has the session.
async fn watch(
    State(state): State<AppState>,
    view: View<Read>,
    JobPath(id): JobPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let standing = view.caller.standing_by(view.session.shown.clone());
    events::watch(state, view.caller, id, &headers, standing).await
}
