//! Webhook deliveries: list, read and resend.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use longhaul::job::{
    AT_LABEL, Delivery, ENDPOINT_LABEL, EVENT_LABEL, EventType, Job, MESSAGE_LABEL, Status,
    URL_LABEL,
};
use longhaul::store::{Filter, PageRequest, StoreError};
use longhaul::{BulkCommand, Engine, JobId};
use longhaul_client::wire::{
    self, BulkResult, DeliveryAttempt, DeliveryFilter, DeliveryList, Instant, ResendRequest,
};

use crate::api::http::body::JsonBody;
use crate::api::http::caller::{Caller, ManageWebhooks};
use crate::api::http::openapi::{
    BulkProblems, DeliveryPageParams, DeliveryProblems, JobListProblems, ListProblems, PathOfJob,
};
use crate::api::http::paging::PageQuery;
use crate::api::http::params::{IdPath, JobPath, Pairs, bad, body_instant};
use crate::jobs::query::parse_status;
use crate::problem::{Code, Problem, Result};
use crate::to_wire;
use crate::webhooks;

/// List deliveries, newest first.
///
/// A page examines at most 2,000 deliveries. If few of them match, it is shorter than `limit` or empty and still has a
/// `nextCursor`: the list ends when `nextCursor` is null.
#[utoipa::path(
    get, path = "/v1/deliveries", operation_id = "listDeliveries", tag = "webhooks",
    params(
        DeliveryPageParams,
        ("status" = Option<wire::Status>, Query, description = "Status filter; `failed` deliveries are dead letters."),
        ("endpoint" = Option<String>, Query, description = "Only deliveries to this endpoint."),
        ("type" = Option<String>, Query, pattern = "^(job\\.(pending|running|phase|completed|failed|cancelled)|endpoint\\.test)$", description = "Only deliveries of this event type."),
    ),
    responses((status = 200, description = "One page of deliveries.", body = DeliveryList), ListProblems),
)]
pub(crate) async fn list_deliveries(caller: Caller, query: Pairs) -> Result<Json<DeliveryList>> {
    let mut query = PageQuery::parse(query, &["status", "endpoint", "type"])?;
    let status = query.take("status").map(|text| parse_status(&text));
    let (endpoint, event) = (query.take("endpoint"), query.take("type"));
    let filter = Filter {
        statuses: status.transpose()?.into_iter().collect(),
        labels: labels(endpoint, event)?,
        ..Filter::default()
    };
    page(&caller.engine.outbox(), &filter, &query).await
}

/// List the deliveries of a job's events, newest first.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/deliveries", operation_id = "listJobDeliveries", tag = "webhooks",
    params(PathOfJob, DeliveryPageParams),
    responses(
        (status = 200, description = "One page of deliveries.", body = DeliveryList),
        JobListProblems,
    ),
)]
pub(crate) async fn list_job_deliveries(
    caller: Caller,
    JobPath(id): JobPath,
    query: Pairs,
) -> Result<Json<DeliveryList>> {
    let query = PageQuery::parse(query, &[])?;
    // A deleted job may still have deliveries.
    match caller.engine.job(id).await {
        Ok(_) | Err(StoreError::Gone) => {}
        Err(error) => return Err(error.into()),
    }
    let filter = Filter { parent: Some(id), ..Filter::default() };
    page(&caller.engine.outbox(), &filter, &query).await
}

async fn page(outbox: &Engine, filter: &Filter, query: &PageQuery) -> Result<Json<DeliveryList>> {
    let before = query.cursor.as_deref().map(|cursor| {
        cursor.parse().map_err(|()| bad("the cursor is not a nextCursor of this server"))
    });
    let request = PageRequest::new(query.limit, before.transpose()?);
    Ok(Json(list(outbox, filter, &request).await?))
}

pub(crate) async fn list(
    outbox: &Engine,
    filter: &Filter,
    page: &PageRequest,
) -> Result<DeliveryList> {
    let page = outbox.jobs_page(filter, page).await?;
    let deliveries = page.jobs.iter().map(|job| to_wire(job, Vec::new())).collect();
    let next_cursor = page.next.map(|id| id.to_string());
    Ok(DeliveryList { deliveries, next_cursor })
}

/// Read a delivery with the responses to its attempts.
#[utoipa::path(
    get, path = "/v1/deliveries/{id}", operation_id = "getDelivery", tag = "webhooks",
    params(("id" = String, Path, description = "The delivery's id.")),
    responses((status = 200, description = "The delivery.", body = wire::Delivery), DeliveryProblems),
)]
pub(crate) async fn get_delivery(
    caller: Caller,
    IdPath(id): IdPath,
) -> Result<Json<wire::Delivery>> {
    Ok(Json(with_attempts(&caller.engine.outbox(), delivery_id(&id)?).await?))
}

/// Resend a delivery.
///
/// A dead letter gets as many attempts as it had at first. A completed delivery is sent as a new delivery with the
/// same message id.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/resend", operation_id = "resendDelivery", tag = "webhooks",
    params(("id" = String, Path, description = "The delivery's id.")),
    responses(
        (status = 202, description = "The pending delivery.", body = wire::Delivery),
        DeliveryProblems,
    ),
)]
pub(crate) async fn resend_delivery(
    caller: Caller<ManageWebhooks>,
    IdPath(id): IdPath,
) -> Result<(StatusCode, Json<wire::Delivery>)> {
    let under_way = resend(&caller, delivery_id(&id)?).await?;
    Ok((StatusCode::ACCEPTED, Json(with_attempts(&caller.engine.outbox(), under_way).await?)))
}

/// Resends a delivery and returns the id of the pending one.
pub(crate) async fn resend(caller: &Caller<ManageWebhooks>, id: JobId) -> Result<JobId> {
    let outbox = caller.engine.outbox();
    let delivery = outbox.job(id).await.map_err(no_delivery)?.job;
    caller.audit("delivery.resend", &id.to_string(), String::new()).await?;
    Ok(match delivery.status {
        // Already pending.
        Status::Pending | Status::Running | Status::Waiting => id,
        Status::Failed | Status::Cancelled => outbox.resume(id).await?.id,
        Status::Completed => {
            let input = outbox.input(id).await?;
            let delivery: Delivery = input.to().map_err(Problem::internal)?;
            caller.engine.deliver(&delivery).await?
        }
    })
}

/// Resend all matching dead letters.
#[utoipa::path(
    post, path = "/v1/deliveries/resend", operation_id = "resendDeliveries", tag = "webhooks",
    request_body = ResendRequest,
    responses((status = 200, description = "Number of deliveries.", body = BulkResult), BulkProblems),
)]
pub(crate) async fn resend_deliveries(
    caller: Caller<ManageWebhooks>,
    JsonBody(ResendRequest { filter }): JsonBody<ResendRequest>,
) -> Result<Json<BulkResult>> {
    let detail = serde_json::to_string(&filter).map_err(Problem::internal)?;
    caller.audit("deliveries.resend", "", detail).await?;
    let DeliveryFilter { endpoint_id, job_id, event, created_after } = filter;
    let parent = job_id.map(|text| {
        let invalid = || Problem::invalid(format_args!("jobId {text:?} is not a job's id"));
        text.parse().map_err(|()| invalid())
    });
    let filter = Filter {
        statuses: vec![Status::Failed],
        labels: labels(endpoint_id, event)?,
        parent: parent.transpose()?,
        created_after: body_instant("createdAfter", created_after.as_ref())?,
        ..Filter::default()
    };
    let count = caller.engine.outbox().bulk(&filter, BulkCommand::Resume).await?;
    Ok(Json(BulkResult { count }))
}

pub(crate) fn labels(
    endpoint: Option<String>,
    event: Option<String>,
) -> Result<BTreeMap<String, String>> {
    let event =
        event.map(|word| word.parse::<EventType>().map_err(Problem::invalid)).transpose()?;
    let endpoint = endpoint.map(|id| (ENDPOINT_LABEL.to_owned(), id));
    let event = event.map(|event| (EVENT_LABEL.to_owned(), event.to_string()));
    Ok(endpoint.into_iter().chain(event).collect())
}

pub(crate) async fn with_attempts(outbox: &Engine, id: JobId) -> Result<wire::Delivery> {
    // In this order, so that the delivery is never older than the attempts shown with it.
    let steps = outbox.steps(id).await.map_err(no_delivery)?;
    let record = outbox.job(id).await.map_err(no_delivery)?;
    let failed = steps.iter().map(|step| &step.output);
    let attempts = failed.chain(record.result.as_ref()).filter_map(|output| output.to().ok());
    Ok(to_wire(&record.job, attempts.map(attempt).collect()))
}

/// Parses a delivery id; a malformed id gets the same response as an unknown delivery.
pub(crate) fn delivery_id(text: &str) -> Result<JobId> {
    text.parse().map_err(|()| no_delivery(StoreError::NotFound))
}

fn no_delivery(error: StoreError) -> Problem {
    if matches!(error, StoreError::NotFound | StoreError::Gone) {
        let detail = "unknown or deleted delivery";
        return Problem::new(Code::DeliveryNotFound, detail);
    }
    error.into()
}

fn attempt(attempt: webhooks::DeliveryAttempt) -> DeliveryAttempt {
    DeliveryAttempt {
        at: to_wire::instant(attempt.at),
        status: attempt.status,
        latency_ms: attempt.latency_ms,
        answer: attempt.response,
        error: attempt.error,
    }
}

fn to_wire(job: &Job, attempts: Vec<DeliveryAttempt>) -> wire::Delivery {
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
