//! Sections of a job's page.

use longhaul::job::{Artifact, Record};
use longhaul::store::{Filter, PageRequest};
use longhaul::{Job, JobId, Status, Timestamp};
use longhaul_client::wire::{Stored, StoredRole};
use maud::{Markup, html};

use crate::api::http::caller::{ManageWebhooks, Read};
use crate::api::webhooks::deliveries;
use crate::dashboard::components::{
    bytes, duration, status, time, time_or, token_field, truncated,
};
use crate::dashboard::page_context::PageContext;
use crate::encoding;
use crate::jobs::query;
use crate::problem::Problem;
use crate::to_wire;

/// Limit of listed deliveries, newest first.
const DELIVERIES_MAX: usize = 50;
/// Limit of listed events, the latest ones.
const EVENTS_MAX: usize = 200;
/// Size limit of image previews.
const PREVIEW_BYTES_MAX: u64 = 8 << 20;

/// Renders the job's error and its next attempt, or when it is due.
pub(super) fn error_or_due(job: &Job, now: Timestamp) -> Markup {
    let Some(error) = job.error.as_ref().filter(|_| job.status != Status::Completed) else {
        return match job.status {
            Status::Pending if job.run_at > now => {
                html! {
                    p { "Due in " (duration(job.run_at.since(now))) ", at " (time(&job.run_at)) "." }
                }
            }
            Status::Pending
            | Status::Running
            | Status::Waiting
            | Status::Completed
            | Status::Failed
            | Status::Cancelled => html! {},
        };
    };
    html! {
        div.error-box role="note" aria-label="Error" {
            p {
                "Attempt " (error.attempt) " failed. " (retryability(job, error.retryable)) " "
                code { (error.code) }
            }
            pre.error-text { (error.message) }
            @if job.status == Status::Pending {
                p {
                    @if job.run_at > now {
                        "Next attempt in " (duration(job.run_at.since(now))) ", at "
                        (time(&job.run_at)) "."
                    }
                    @else { "Queued for its next attempt." }
                }
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

pub(super) fn facts(ctx: &PageContext<Read>, job: &Job) -> Markup {
    let of_job = |id: JobId| ctx.link(&format!("/ui/jobs/{id}"), &[]);
    html! {
        dl.facts {
            dt { "Kind" }
            dd {
                a href=(ctx.link("/ui/jobs", &[("kind", job.kind.as_str())])) {
                    (job.kind.as_str())
                }
            }
            dt { "Queue" }
            dd {
                a href=(ctx.link("/ui/jobs", &[("queue", job.queue.as_str())])) {
                    (job.queue.as_str())
                }
            }
            dt { "Tenant" } dd { (job.tenant.as_str()) }
            dt { "Priority" } dd { (job.priority) }
            @if let Some(key) = &job.idempotency_key {
                dt { "Idempotency key" } dd { code { (key) } }
            }
            dt { "Labels" }
            dd {
                @if job.labels.is_empty() { span.soft { "None" } }
                @for (name, value) in &job.labels {
                    @let filter = format!("label.{name}");
                    a.label href=(ctx.link("/ui/jobs", &[(&filter, value)])) { (name) "=" (value) }
                }
            }
            dt { "Submitted" } dd { (time(&job.created_at)) }
            @if job.status == Status::Pending { dt { "Due" } dd { (time(&job.run_at)) } }
            dt { "Started" } dd { (time_or(job.started_at.as_ref(), "–")) }
            dt { "Finished" } dd { (time_or(job.completed_at.as_ref(), "–")) }
            dt { "Expires" }
            dd {
                @if let Some(at) = job.expires_at {
                    (time(&at))
                } @else {
                    span.soft { "Retention starts when the job finishes" }
                }
            }
            @if let Some(timeout) = job.timeout { dt { "Timeout" } dd { (duration(timeout)) } }
            @if let Some(version) = &job.code_version { dt { "Code version" } dd { (version) } }
            @if let Some(id) = job.forked_from {
                dt { "Forked from" } dd { a href=(of_job(id)) { code { (id) } } }
            }
            @if let Some(id) = job.parent_id {
                dt { "Parent job" } dd { a href=(of_job(id)) { code { (id) } } }
            }
            dt { "Command" } dd { code { "longhaul get " (job.id) } }
        }
    }
}

pub(super) fn artifacts(ctx: &PageContext<Read>, job: &Job) -> Markup {
    let folder = format!("/ui/jobs/{}/artifacts", job.id);
    html! {
        section #artifacts data-live aria-labelledby="artifacts-title" {
            h2 #artifacts-title { "Artifacts" }
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
}

/// Reports whether an artifact is a small image. SVG is safe here, because no script runs inside an `img`.
fn has_preview(artifact: &Artifact) -> bool {
    artifact.content_type.starts_with("image/") && artifact.size <= PREVIEW_BYTES_MAX
}

pub(super) async fn deliveries(ctx: &PageContext<Read>, id: JobId) -> Result<Markup, Problem> {
    let filter = Filter { parent: Some(id), ..Filter::default() };
    let page = PageRequest { limit: DELIVERIES_MAX, before: None };
    let found = deliveries::list(&ctx.caller.engine.outbox(), &filter, &page).await?;
    if found.deliveries.is_empty() {
        return Ok(html! {
            p.soft {
                "No webhooks configured for this job. " a href="/ui/webhooks" { "Endpoints" }
                " receive events of all jobs."
            }
        });
    }
    let (may_resend, folder) = (ctx.may::<ManageWebhooks>(), format!("/ui/jobs/{id}/deliveries"));
    Ok(html! {
        div.scroll tabindex="0" role="group" aria-label="Deliveries of this job" {
            table {
                thead {
                    tr {
                        th { "Event" } th { "To" } th { "Status" } th { "Attempt" } th { "Time" }
                        th { span.visually-hidden { "Actions" } }
                    }
                }
                tbody {
                    @for delivery in &found.deliveries {
                        @let path = format!("{folder}/{}/resend", delivery.delivery_id);
                        @let action = ctx.link(&path, &[]);
                        @let to = delivery.url.as_deref().or(delivery.endpoint_id.as_deref());
                        tr {
                            td { (delivery.event) }
                            td {
                                (truncated(to.unwrap_or("–"), 80))
                            }
                            td {
                                (status(to_wire::status_from(delivery.status)))
                                @if let Some(error) = &delivery.error {
                                    p.error-text { (truncated(error, 200)) }
                                }
                            }
                            td { (delivery.attempt) " of " (delivery.max_attempts) }
                            td { (time(&delivery.timestamp)) }
                            td {
                                @if may_resend && delivery.status.is_terminal() {
                                    form method="post" action=(action) {
                                        (token_field(&ctx.session)) button { "Resend" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}

pub(super) fn history(record: &Record) -> Markup {
    let left_out = record.history.len().saturating_sub(EVENTS_MAX);
    html! {
        @if left_out > 0 { p.soft { "The first " (left_out) " events are not listed." } }
        details #history-events {
            summary { (record.history.len()) " event" @if record.history.len() != 1 { "s" } }
            div.scroll tabindex="0" role="group" aria-label="Events of this job" {
                table {
                    thead {
                        tr {
                            th { "Version" } th { "Time" } th { "Status" } th { "Attempt" }
                            th { "Phase" } th { "Replica" } th { "Error" }
                        }
                    }
                    tbody {
                        @for event in record.history.iter().skip(left_out) {
                            tr {
                                td { (event.version) }
                                td { (time(&event.at)) }
                                td { (status(event.status)) }
                                td { (event.attempt) }
                                td { (event.phase.as_deref().unwrap_or("")) }
                                td { (event.replica.as_deref().unwrap_or("")) }
                                td {
                                    @if let Some(error) = &event.error {
                                        (truncated(&error.message, 200))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(super) async fn receipt(ctx: &PageContext<Read>, id: JobId) -> Result<Markup, Problem> {
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
        div.scroll tabindex="0" role="group" aria-label="Stored data" {
            table {
                thead {
                    tr {
                        th { "Type" } th { "Name" } th { "Size" } th { "Stored" }
                        th { "Key destroyed" } th { "Deleted" }
                    }
                }
                tbody { @for stored in &receipt.stored { (stored_row(stored)) } }
            }
        }
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
