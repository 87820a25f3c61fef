//! What is owed, what arrived and what did not.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use longhaul::job::{
    AT_LABEL, Delivery, ENDPOINT_LABEL, EVENT_LABEL, EventType, Job, MESSAGE_LABEL, Status,
    URL_LABEL,
};
use longhaul::store::{Filter, PageRequest, StoreError};
use longhaul::{BulkCommand, Engine, JobId, Timestamp};
use longhaul_client::wire::{
    self, BulkResult, DeliveryAttempt, DeliveryFilter, DeliveryList, Instant, ResendRequest,
};

use super::invalid;
use crate::api::http::body;
use crate::api::http::caller::{Caller, Submit};
use crate::api::http::openapi::{
    BulkProblems, DeliveryProblems, JobListProblems, ListProblems, PageParams, PathOfJob,
};
use crate::api::http::paging::Asked;
use crate::api::http::params::{IdPath, JobPath, Pairs, bad};
use crate::problem::{Code, Problem};
use crate::to_wire;
use crate::webhooks::Try;

/// List deliveries, newest first.
#[utoipa::path(
    get, path = "/v1/deliveries", operation_id = "listDeliveries", tag = "webhooks",
    params(
        PageParams,
        ("status" = Option<wire::Status>, Query, description = "Only those that stand here: `failed` are the dead letters."),
        ("endpoint" = Option<String>, Query, description = "Only those to this endpoint."),
        ("type" = Option<String>, Query, description = "Only those that tell this."),
    ),
    responses((status = 200, description = "One page of deliveries.", body = DeliveryList), ListProblems),
)]
pub(crate) async fn list_deliveries(
    caller: Caller,
    query: Pairs,
) -> Result<Json<DeliveryList>, Problem> {
    let mut asked = Asked::of(query, &["status", "endpoint", "type"])?;
    let status = asked.take("status").map(|text| {
        let parsed = text.parse::<wire::Status>();
        parsed.map(to_wire::status_from).map_err(bad)
    });
    let (endpoint, event) = (asked.take("endpoint"), asked.take("type"));
    let filter = Filter {
        statuses: status.transpose()?.into_iter().collect(),
        labels: labels(endpoint, event)?,
        ..Filter::default()
    };
    page(&caller.engine.outbox(), &filter, &asked).await
}

/// List the deliveries that tell of a job, newest first.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/deliveries", operation_id = "listJobDeliveries", tag = "webhooks",
    params(PathOfJob, PageParams),
    responses(
        (status = 200, description = "One page of deliveries.", body = DeliveryList),
        JobListProblems,
    ),
)]
pub(crate) async fn list_job_deliveries(
    caller: Caller,
    JobPath(id): JobPath,
    query: Pairs,
) -> Result<Json<DeliveryList>, Problem> {
    let asked = Asked::of(query, &[])?;
    // One that was never there has no deliveries to list; what is owed for one that is gone may go on.
    match caller.engine.job(id).await {
        Ok(_) | Err(StoreError::Gone) => {}
        Err(error) => return Err(error.into()),
    }
    let filter = Filter { parent: Some(id), ..Filter::default() };
    page(&caller.engine.outbox(), &filter, &asked).await
}

async fn page(
    outbox: &Engine,
    filter: &Filter,
    asked: &Asked,
) -> Result<Json<DeliveryList>, Problem> {
    let before = asked
        .cursor
        .as_deref()
        .map(|cursor| cursor.parse().map_err(|()| bad("the cursor is not one that a page gave")));
    let request = PageRequest { limit: asked.limit, before: before.transpose()? };
    Ok(Json(list(outbox, filter, &request).await?))
}

/// One page of deliveries, as callers see them.
pub(crate) async fn list(
    outbox: &Engine,
    filter: &Filter,
    page: &PageRequest,
) -> Result<DeliveryList, Problem> {
    let found = outbox.jobs_page(filter, page).await?;
    let deliveries = found.jobs.iter().map(|job| shown(job, Vec::new())).collect();
    let next_cursor = found.next.map(|id| id.to_string());
    Ok(DeliveryList { deliveries, next_cursor })
}

/// Read a delivery, with what the receiver said.
#[utoipa::path(
    get, path = "/v1/deliveries/{id}", operation_id = "getDelivery", tag = "webhooks",
    params(("id" = String, Path, description = "The delivery's id.")),
    responses((status = 200, description = "The delivery.", body = wire::Delivery), DeliveryProblems),
)]
pub(crate) async fn get_delivery(
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<wire::Delivery>, Problem> {
    Ok(Json(whole(&caller.engine.outbox(), delivery_id(&id)?).await?))
}

/// Send a delivery again.
///
/// A dead letter gets as many attempts as it had at first. One that has arrived is sent as a new delivery
/// under the same message id.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/resend", operation_id = "resendDelivery", tag = "webhooks",
    params(("id" = String, Path, description = "The delivery's id.")),
    responses(
        (status = 202, description = "The delivery that is under way now.", body = wire::Delivery),
        DeliveryProblems,
    ),
)]
pub(crate) async fn resend_delivery(
    caller: Caller<Submit>,
    IdPath(id): IdPath,
) -> Result<(StatusCode, Json<wire::Delivery>), Problem> {
    let under_way = resend(&caller, delivery_id(&id)?).await?;
    Ok((StatusCode::ACCEPTED, Json(whole(&caller.engine.outbox(), under_way).await?)))
}

/// Sends a delivery again in the caller's name, and says which one is under way now.
pub(crate) async fn resend(caller: &Caller<Submit>, id: JobId) -> Result<JobId, Problem> {
    let outbox = caller.engine.outbox();
    let known = outbox.job(id).await.map_err(no_delivery)?.job;
    caller.audit("delivery.resend", &id.to_string(), String::new()).await?;
    Ok(match known.status {
        // It is on its way.
        Status::Pending | Status::Running | Status::Waiting => id,
        Status::Failed | Status::Cancelled => outbox.resume(id).await?.id,
        Status::Completed => {
            let input = outbox.input(id).await?;
            let delivery: Delivery = input.to().map_err(Problem::internal)?;
            caller.engine.deliver(&delivery).await?
        }
    })
}

/// Send all dead letters again that match.
#[utoipa::path(
    post, path = "/v1/deliveries/resend", operation_id = "resendDeliveries", tag = "webhooks",
    request_body = ResendRequest,
    responses((status = 200, description = "How many.", body = BulkResult), BulkProblems),
)]
pub(crate) async fn resend_deliveries(
    caller: Caller<Submit>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BulkResult>, Problem> {
    let text = body::json_text(&headers, body, body::SMALL_BYTES_MAX).await?;
    let ResendRequest { filter } = body::object(&text)?;
    let detail = serde_json::to_string(&filter).map_err(Problem::internal)?;
    caller.audit("deliveries.resend", "", detail).await?;
    let DeliveryFilter { endpoint_id, job_id, event, created_after } = filter;
    let parent = job_id.map(|text| {
        text.parse().map_err(|()| invalid(format_args!("jobId {text:?} is not a job's id")))
    });
    let created_after = created_after.map(|at| {
        let reason = format!("createdAfter {:?} is not an RFC 3339 instant", at.0);
        Timestamp::parse(at.as_str()).ok_or_else(|| invalid(reason))
    });
    let filter = Filter {
        statuses: vec![Status::Failed],
        labels: labels(endpoint_id, event)?,
        parent: parent.transpose()?,
        created_after: created_after.transpose()?,
        ..Filter::default()
    };
    let count = caller.engine.outbox().bulk(&filter, BulkCommand::Resume).await?;
    Ok(Json(BulkResult { count }))
}

pub(crate) fn labels(
    endpoint: Option<String>,
    event: Option<String>,
) -> Result<BTreeMap<String, String>, Problem> {
    let event = event.map(|word| word.parse::<EventType>().map_err(invalid)).transpose()?;
    let endpoint = endpoint.map(|id| (ENDPOINT_LABEL.to_owned(), id));
    let event = event.map(|event| (EVENT_LABEL.to_owned(), event.to_string()));
    Ok(endpoint.into_iter().chain(event).collect())
}

/// A delivery with its attempts.
pub(crate) async fn whole(outbox: &Engine, id: JobId) -> Result<wire::Delivery, Problem> {
    // In this order: whoever sees what an attempt found out must not see the delivery as it stood before.
    let steps = outbox.steps(id).await.map_err(no_delivery)?;
    let record = outbox.job(id).await.map_err(no_delivery)?;
    let failed = steps.iter().map(|step| &step.output);
    let attempts = failed.chain(record.result.as_ref()).filter_map(|said| said.to().ok());
    Ok(shown(&record.job, attempts.map(attempt).collect()))
}

/// What is not an id is the id of nothing.
pub(crate) fn delivery_id(text: &str) -> Result<JobId, Problem> {
    text.parse().map_err(|()| no_delivery(StoreError::NotFound))
}

fn no_delivery(error: StoreError) -> Problem {
    if matches!(error, StoreError::NotFound | StoreError::Gone) {
        let detail = "there is no such delivery, or it is forgotten";
        return Problem::new(Code::DeliveryNotFound, detail);
    }
    error.into()
}

fn attempt(said: Try) -> DeliveryAttempt {
    DeliveryAttempt {
        at: to_wire::instant(said.at),
        status: said.status,
        latency_ms: said.latency_ms,
        answer: said.answer,
        error: said.error,
    }
}

fn shown(job: &Job, attempts: Vec<DeliveryAttempt>) -> wire::Delivery {
    let label = |name| job.labels.get(name).cloned();
    wire::Delivery {
        delivery_id: job.id.to_string(),
        message_id: label(MESSAGE_LABEL).unwrap_or_default(),
        event: label(EVENT_LABEL).unwrap_or_default(),
        job_id: job.parent_id.map(|id| id.to_string()),
        endpoint_id: label(ENDPOINT_LABEL),
        url: label(URL_LABEL),
        status: to_wire::status(job.status),
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        timestamp: label(AT_LABEL).map_or_else(|| to_wire::instant(job.created_at), Instant),
        run_at: to_wire::instant(job.run_at),
        completed_at: job.completed_at.map(to_wire::instant),
        expires_at: job.expires_at.map(to_wire::instant),
        error: job.error.as_ref().map(|error| error.message.clone()),
        attempts,
    }
}
