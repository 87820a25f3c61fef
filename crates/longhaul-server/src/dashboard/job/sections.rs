//! The parts of a job's page.

use longhaul::job::{Artifact, Record};
use longhaul::store::{Filter, PageRequest};
use longhaul::{Job, JobId, Status, Timestamp};
use longhaul_client::wire::{Stored, StoredRole};
use maud::{Markup, html};

use crate::api::http::caller::{Read, Submit};
use crate::api::jobs::artifacts;
use crate::api::webhooks::deliveries;
use crate::dashboard::parts::{bytes, cut, maybe, status, time, token, told, told_or, took};
use crate::dashboard::view::View;
use crate::encoding;
use crate::problem::Problem;
use crate::to_wire;

/// Deliveries that are shown, the newest ones.
const DELIVERIES_MAX: usize = 50;
/// Events that are shown, the latest ones.
const EVENTS_MAX: usize = 200;
/// Images up to this are shown in the page.
const PREVIEW_BYTES_MAX: u64 = 8 << 20;

/// Why a job stands where it does, if there is something to say.
pub(super) fn why(job: &Job, now: Timestamp) -> Markup {
    let Some(error) = job.error.as_ref().filter(|_| job.status != Status::Completed) else {
        return match job.status {
            Status::Pending if job.run_at > now => {
                html! {
                    p { "It is due in " (took(job.run_at.since(now))) ", at " (time(job.run_at)) "." }
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
        div.why role="note" aria-label="Error" {
            p {
                code { (error.code) } " in attempt " (error.attempt) ", "
                @if error.retryable {
                    "may succeed if it is tried again"
                } @else {
                    "would meet every further attempt too"
                }
            }
            pre.error-text { (error.message) }
            @if job.status == Status::Pending {
                p {
                    @if job.run_at > now {
                        "It is tried again in " (took(job.run_at.since(now))) ", at "
                        (time(job.run_at)) "."
                    }
                    @else { "It is in line to be tried again." }
                }
            }
        }
    }
}

pub(super) fn facts(view: &View<Read>, job: &Job) -> Markup {
    let of_job = |id: JobId| view.link(&format!("/ui/jobs/{id}"), &[]);
    html! {
        dl.facts {
            dt { "Kind" }
            dd {
                a href=(view.link("/ui/jobs", &[("kind", job.kind.as_str())])) {
                    (job.kind.as_str())
                }
            }
            dt { "Queue" }
            dd {
                a href=(view.link("/ui/jobs", &[("queue", job.queue.as_str())])) {
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
                @if job.labels.is_empty() { span.soft { "none" } }
                @for (name, value) in &job.labels {
                    @let filter = format!("label.{name}");
                    a.label href=(view.link("/ui/jobs", &[(&filter, value)])) { (name) "=" (value) }
                }
            }
            dt { "Accepted" } dd { (time(job.created_at)) }
            @if job.status == Status::Pending { dt { "Due" } dd { (time(job.run_at)) } }
            dt { "Began" } dd { (maybe(job.started_at)) }
            dt { "Ended" } dd { (maybe(job.completed_at)) }
            dt { "Kept until" }
            dd {
                @if let Some(at) = job.expires_at {
                    (time(at))
                } @else {
                    span.soft { "some time after its end" }
                }
            }
            @if let Some(timeout) = job.timeout { dt { "Timeout" } dd { (took(timeout)) } }
            @if let Some(version) = &job.code_version { dt { "Code version" } dd { (version) } }
            @if let Some(id) = job.forked_from {
                dt { "Forked from" } dd { a href=(of_job(id)) { code { (id) } } }
            }
            @if let Some(id) = job.parent_id {
                dt { "Belongs to" } dd { a href=(of_job(id)) { code { (id) } } }
            }
            dt { "From a shell" } dd { code { "longhaul get " (job.id) } }
        }
    }
}

pub(super) fn artifacts(view: &View<Read>, job: &Job) -> Markup {
    let folder = format!("/ui/jobs/{}/artifacts", job.id);
    html! {
        section #artifacts data-live aria-labelledby="artifacts-title" {
            h2 #artifacts-title { "Artifacts" }
            @if job.artifacts.is_empty() { p.soft { "It has none." } }
            ul.artifacts {
                @for artifact in &job.artifacts {
                    @let path = format!("{folder}/{}", encoding::path_segment(&artifact.name));
                    @let url = view.link(&path, &[]);
                    li {
                        @if is_previewed(artifact) {
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

/// An image, also one that could be a page: in an image no script runs.
fn is_previewed(artifact: &Artifact) -> bool {
    artifact.content_type.starts_with("image/") && artifact.size <= PREVIEW_BYTES_MAX
}

pub(super) async fn deliveries(view: &View<Read>, id: JobId) -> Result<Markup, Problem> {
    let filter = Filter { parent: Some(id), ..Filter::default() };
    let page = PageRequest { limit: DELIVERIES_MAX, before: None };
    let found = deliveries::list(&view.caller.engine.outbox(), &filter, &page).await?;
    if found.deliveries.is_empty() {
        return Ok(html! {
            p.soft {
                "Nobody is told of this job. " a href="/ui/webhooks" { "Endpoints" }
                " are told of all of them."
            }
        });
    }
    let (may_resend, folder) = (view.may::<Submit>(), format!("/ui/jobs/{id}/deliveries"));
    Ok(html! {
        div.scroll tabindex="0" role="group" aria-label="Deliveries of this job" {
            table {
                thead {
                    tr {
                        th { "Event" } th { "To" } th { "Status" } th { "Attempt" } th { "When" }
                        th { span.unseen { "What can be done" } }
                    }
                }
                tbody {
                    @for delivery in &found.deliveries {
                        @let path = format!("{folder}/{}/resend", delivery.delivery_id);
                        @let action = view.link(&path, &[]);
                        @let to = delivery.url.as_deref().or(delivery.endpoint_id.as_deref());
                        tr {
                            td { (delivery.event) }
                            td {
                                (cut(to.unwrap_or("–"), 80))
                            }
                            td {
                                (status(to_wire::status_from(delivery.status)))
                                @if let Some(error) = &delivery.error {
                                    p.error-text { (cut(error, 200)) }
                                }
                            }
                            td { (delivery.attempt) " of " (delivery.max_attempts) }
                            td { (told(delivery.timestamp.as_str())) }
                            td {
                                @if may_resend && delivery.status.is_terminal() {
                                    form method="post" action=(action) {
                                        (token(&view.session)) button { "Resend" }
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
        @if left_out > 0 { p.soft { "The first " (left_out) " events are not shown." } }
        details #history-events {
            summary { (record.history.len()) " event" @if record.history.len() != 1 { "s" } }
            div.scroll tabindex="0" role="group" aria-label="Events of this job" {
                table {
                    thead {
                        tr {
                            th { "Version" } th { "When" } th { "Status" } th { "Attempt" }
                            th { "Phase" } th { "Replica" } th { "Error" }
                        }
                    }
                    tbody {
                        @for event in record.history.iter().skip(left_out) {
                            tr {
                                td { (event.version) }
                                td { (time(event.at)) }
                                td { (status(event.status)) }
                                td { (event.attempt) }
                                td { (event.phase.as_deref().unwrap_or("")) }
                                td { (event.replica.as_deref().unwrap_or("")) }
                                td {
                                    @if let Some(error) = &event.error {
                                        (cut(&error.message, 200))
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

pub(super) async fn receipt(view: &View<Read>, id: JobId) -> Result<Markup, Problem> {
    let receipt = artifacts::receipt(&view.caller, id).await?;
    if receipt.stored.is_empty() {
        return Ok(html! { p.soft { "No payload, artifact or folder was stored for it." } });
    }
    Ok(html! {
        p {
            @if receipt.deleted { "All that was stored for it is deleted." }
            @else if receipt.unreadable {
                "All that was stored for it is unreadable: its keys are destroyed. Not all of it \
                 is deleted yet."
            }
            @else { "Some of what was stored for it can be read." }
        }
        div.scroll tabindex="0" role="group" aria-label="What was stored" {
            table {
                thead {
                    tr {
                        th { "What" } th { "Name" } th { "Size" } th { "Stored" }
                        th { "Key destroyed" } th { "Deleted" }
                    }
                }
                tbody { @for stored in &receipt.stored { (stored_row(stored)) } }
            }
        }
    })
}

fn stored_row(stored: &Stored) -> Markup {
    let what = match stored.role {
        StoredRole::Payload => "payload",
        StoredRole::Artifact => "artifact",
        StoredRole::Folder => "folder",
    };
    html! {
        tr {
            td { (what) }
            td { (cut(&stored.name, 100)) }
            td { @if let Some(size) = stored.size { (bytes(size)) } }
            td { (told(stored.stored_at.as_str())) }
            td { (told_or(stored.key_destroyed_at.as_ref(), "–")) }
            td { (told_or(stored.deleted_at.as_ref(), "–")) }
        }
    }
}
