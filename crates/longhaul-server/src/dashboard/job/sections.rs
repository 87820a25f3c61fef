//! Sections of a job's page.

use longhaul::store::{Filter, PageRequest};
use longhaul::{JobId, Timestamp};
use longhaul_client::wire::{Artifact, Delivery, Job, Status, Stored, StoredRole};
use maud::{Markup, html};

use crate::api::http::caller::Read;
use crate::api::webhooks::deliveries;
use crate::dashboard::components::{
    ACTIONS, bytes, duration, status, table, time, time_or, timestamp, truncated,
};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::webhooks::{delivery_cells, resend_button};
use crate::encoding;
use crate::jobs::details::{JobDetails, JobEvent};
use crate::jobs::query;
use crate::problem::Result;

/// Limit of listed deliveries, newest first.
const DELIVERIES_MAX: usize = 50;
/// Limit of listed events, the latest ones.
const EVENTS_MAX: usize = 200;
/// Size limit of image previews.
const PREVIEW_BYTES_MAX: u64 = 8 << 20;

/// Renders the job's error and its next attempt, or when it is due.
pub(super) fn error_or_due(job: &Job, now: Timestamp) -> Markup {
    let due_in = timestamp(&job.run_at).since(now);
    let is_scheduled = job.status == Status::Pending && !due_in.is_zero();
    let Some(error) = job.error.as_ref().filter(|_| job.status != Status::Completed) else {
        return html! {
            @if is_scheduled { p { "Due in " (duration(due_in)) ", at " (time(&job.run_at)) "." } }
        };
    };
    html! {
        div.error-box role="note" aria-label="Error" {
            p {
                "Attempt " (error.attempt) " failed. " (retryability(job, error.retryable)) " "
                code { (error.code) }
            }
            pre.error-text { (error.message) }
            @if is_scheduled {
                p { "Next attempt in " (duration(due_in)) ", at " (time(&job.run_at)) "." }
            } @else if job.status == Status::Pending {
                p { "Queued for its next attempt." }
            }
        }
    }
}

fn retryability(job: &Job, is_retryable: bool) -> &'static str {
    match job.status {
        _ if !is_retryable => "Not retryable.",
        Status::Failed => "Retryable; no attempts left.",
        Status::Pending
        | Status::Running
        | Status::Waiting
        | Status::Completed
        | Status::Cancelled => "Retryable.",
    }
}

pub(super) fn facts(ctx: &PageContext<Read>, details: &JobDetails) -> Markup {
    let JobDetails { job, tenant, timeout, code_version, .. } = details;
    let filtered = |name: &str, value: &str| ctx.link("/ui/jobs", &[(name, value)]);
    let of_job = |id: &str| ctx.link(&format!("/ui/jobs/{id}"), &[]);
    html! {
        dl.facts {
            dt { "Kind" } dd { a href=(filtered("kind", &job.kind)) { (job.kind) } }
            dt { "Queue" } dd { a href=(filtered("queue", &job.queue)) { (job.queue) } }
            dt { "Tenant" } dd { (tenant) }
            dt { "Priority" } dd { (job.priority) }
            @if let Some(key) = &job.idempotency_key {
                dt { "Idempotency key" } dd { code { (key) } }
            }
            dt { "Labels" }
            dd {
                @if job.labels.is_empty() { span.soft { "None" } }
                @for (name, value) in &job.labels {
                    a.label href=(filtered(&format!("label.{name}"), value)) { (name) "=" (value) }
                }
            }
            dt { "Submitted" } dd { (time(&job.created_at)) }
            @if job.status == Status::Pending { dt { "Due" } dd { (time(&job.run_at)) } }
            dt { "Started" } dd { (time_or(job.started_at.as_ref(), "–")) }
            dt { "Finished" } dd { (time_or(job.completed_at.as_ref(), "–")) }
            dt { "Expires" }
            dd { (time_or(job.expires_at.as_ref(), "Retention starts when the job finishes")) }
            @if let Some(timeout) = timeout { dt { "Timeout" } dd { (duration(*timeout)) } }
            @if let Some(version) = code_version { dt { "Code version" } dd { (version) } }
            @if let Some(id) = &job.forked_from {
                dt { "Forked from" } dd { a href=(of_job(id)) { code { (id) } } }
            }
            @if let Some(id) = &job.parent_id {
                dt { "Parent job" } dd { a href=(of_job(id)) { code { (id) } } }
            }
            dt { "Command" } dd { code { "longhaul get " (job.job_id) } }
        }
    }
}

pub(super) fn artifacts(ctx: &PageContext<Read>, job: &Job) -> Markup {
    let folder = format!("/ui/jobs/{}/artifacts", job.job_id);
    html! {
        @if job.artifacts.is_empty() { p.soft { "No artifacts." } }
        ul.artifacts {
            @for artifact in &job.artifacts {
                @let path = format!("{folder}/{}", encoding::path_segment(&artifact.name));
                @let url = ctx.link(&path, &[]);
                li {
                    @if has_preview(artifact) {
                        a href=(url) download=(artifact.name) {
                            img src=(url) alt=(format!("Preview of {}", artifact.name))
                                loading="lazy";
                        }
                    }
                    a href=(url) download=(artifact.name) { (artifact.name) }
                    span.soft { (artifact.content_type) ", " (bytes(artifact.size)) }
                }
            }
        }
    }
}

/// Reports whether an artifact is a small image. SVG is safe here, because no script runs inside an `img`.
fn has_preview(artifact: &Artifact) -> bool {
    artifact.content_type.starts_with("image/") && artifact.size <= PREVIEW_BYTES_MAX
}

pub(super) async fn deliveries(ctx: &PageContext<Read>, id: JobId) -> Result<Markup> {
    let filter = Filter { parent: Some(id), ..Filter::default() };
    let page = PageRequest::new(DELIVERIES_MAX, None);
    let found = deliveries::list(&ctx.caller.engine.outbox(), &filter, &page).await?;
    if found.deliveries.is_empty() {
        return Ok(html! {
            p.soft {
                "No webhooks configured for this job. " a href="/ui/webhooks" { "Endpoints" }
                " receive events of all jobs."
            }
        });
    }
    let row = |delivery: &Delivery| {
        let to = delivery.url.as_deref().or(delivery.endpoint_id.as_deref());
        html! {
            tr {
                td { (delivery.event) }
                td { (truncated(to.unwrap_or("–"), 80)) }
                (delivery_cells(delivery))
                td { (resend_button(ctx, delivery, &format!("/ui/jobs/{id}/deliveries"))) }
            }
        }
    };
    let headings = ["Event", "To", "Status", "Attempt", "Time", ACTIONS];
    Ok(table("Deliveries of this job", &headings, found.deliveries.iter().map(row)))
}

pub(super) fn history(events: &[JobEvent]) -> Markup {
    let left_out = events.len().saturating_sub(EVENTS_MAX);
    let row = |event: &JobEvent| {
        html! {
            tr {
                td { (event.version) }
                td { (time(&event.at)) }
                td { (status(event.status)) }
                td { (event.attempt) }
                td { (event.phase.as_deref().unwrap_or("")) }
                td { (event.replica.as_deref().unwrap_or("")) }
                td { @if let Some(error) = &event.error { (truncated(error, 200)) } }
            }
        }
    };
    html! {
        @if left_out > 0 { p.soft { "The first " (left_out) " events are not listed." } }
        details #history-events {
            summary { (events.len()) " event" @if events.len() != 1 { "s" } }
            (table(
                "Events of this job",
                &["Version", "Time", "Status", "Attempt", "Phase", "Replica", "Error"],
                events.iter().skip(left_out).map(row),
            ))
        }
    }
}

pub(super) async fn receipt(ctx: &PageContext<Read>, id: JobId) -> Result<Markup> {
    let receipt = query::receipt(&ctx.caller, id).await?;
    if receipt.stored.is_empty() {
        return Ok(
            html! { p.soft { "No payload, artifact or work directory was stored for this job." } },
        );
    }
    Ok(html! {
        p {
            @if receipt.deleted { "All stored data of this job is deleted." }
            @else if receipt.unreadable {
                "All stored data of this job is unreadable, because its keys are destroyed. Not all \
                 of it is deleted yet."
            }
            @else { "Some stored data of this job is still readable." }
        }
        (table(
            "Stored data",
            &["Type", "Name", "Size", "Stored", "Key destroyed", "Deleted"],
            receipt.stored.iter().map(stored_row),
        ))
    })
}

fn stored_row(stored: &Stored) -> Markup {
    let role = match stored.role {
        StoredRole::Payload => "payload",
        StoredRole::Artifact => "artifact",
        StoredRole::Folder => "work directory",
    };
    html! {
        tr {
            td { (role) }
            td { (truncated(&stored.name, 100)) }
            td { @if let Some(size) = stored.size { (bytes(size)) } }
            td { (time(&stored.stored_at)) }
            td { (time_or(stored.key_destroyed_at.as_ref(), "–")) }
            td { (time_or(stored.deleted_at.as_ref(), "–")) }
        }
    }
}
