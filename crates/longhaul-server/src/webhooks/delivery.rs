//! One attempt of a delivery.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use longhaul::job::{Delivery, Receiver, Webhook, WebhookFormat};
use longhaul::store::StoreError;
use longhaul::store::accounts::{Actor, AuditEntry};
use longhaul::store::endpoints::{Endpoint, EndpointChange};
use longhaul::{Ctx, JobError, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::endpoint_limits::Acquire;
use super::ordering::{GONE, Turn, was_attempted};
use super::signature::{self, SigningSecret};
use super::{Inner, WebhookDispatcher, event_body, state_events};
use longhaul_net::egress::{BODY_PREFIX_DEFAULT, EgressRequest, EgressResponse, SendError};

/// Shortest and longest snooze when the endpoint has no free permit; in between, a quarter of the delivery's age, so
/// that many deliveries to a slow endpoint do not load the store.
const NO_PERMIT_SNOOZE: (Duration, Duration) =
    (Duration::from_millis(500), Duration::from_secs(15));
/// Shortest snooze while the circuit breaker is open.
const BREAKER_SNOOZE_MIN: Duration = Duration::from_secs(5);
/// Time that a delivery waits for an open circuit breaker before it is charged with attempts, so that deliveries to a
/// dead endpoint become dead letters.
const UNCHARGED_WAIT_MAX: Duration = Duration::from_mins(5);
/// Snooze when the store is unavailable.
const STORE_UNAVAILABLE_SNOOZE: Duration = Duration::from_secs(2);

/// The endpoint's response to an attempt, or the reason why there is none.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryAttempt {
    pub at: Timestamp,
    /// HTTP status, if there was a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    pub latency_ms: u64,
    /// Beginning of the response body.
    #[serde(default, rename = "answer", skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// Error without a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// URL and format of a delivery, and its signing secrets.
struct DeliveryDestination {
    url: String,
    secrets: Vec<SigningSecret>,
    full: bool,
    format: WebhookFormat,
}

impl WebhookDispatcher {
    pub(super) async fn deliver(
        &self,
        ctx: Ctx,
        delivery: Delivery,
    ) -> Result<DeliveryAttempt, JobError> {
        let inner = &*self.0;
        let tenant = ctx.job().tenant.owner();
        // Replays the steps of earlier attempts, as every job must.
        let attempted = ctx.finished_steps().len();
        for number in 1..=attempted {
            let _: DeliveryAttempt =
                ctx.step(step_name(number), || async { Err(not_stored()) }).await?;
        }
        let destination = match inner.destination(&tenant, &delivery).await {
            Ok(destination) => destination?,
            Err(error) => return snooze_for_store(&ctx, &error).await,
        };
        let job = ctx.job();
        if attempted == 0 && !was_attempted(job) {
            match inner.order.turn(&ctx, &inner.clock).await {
                Ok(Turn::Now) => {}
                Ok(Turn::Later(delay)) => return Err(ctx.snooze(delay).await),
                Ok(Turn::Unwanted) => return Err(gone()),
                Err(error) => return snooze_for_store(&ctx, &error).await,
            }
        }
        let in_flight = inner.order.begin(ctx.id());
        let acquired = inner.endpoint_limits.acquire_soon(&job.queue, &inner.clock).await;
        let now = inner.clock.now();
        let permit = match acquired {
            Acquire::Acquired(permit) => permit,
            Acquire::Full => {
                let delay =
                    (now.since(job.created_at) / 4).clamp(NO_PERMIT_SNOOZE.0, NO_PERMIT_SNOOZE.1);
                return Err(ctx.snooze(delay.mul_f64(0.5 + rand::random::<f64>())).await);
            }
            // A delivery without an attempt waits, so that first attempts stay in order.
            Acquire::BreakerOpen(until)
                if attempted == 0 && now.since(job.created_at) < UNCHARGED_WAIT_MAX =>
            {
                // With jitter, because only one delivery may probe.
                let delay = until.since(now).max(BREAKER_SNOOZE_MIN);
                return Err(ctx.snooze(delay.mul_f64(1.0 + 2.0 * rand::random::<f64>())).await);
            }
            Acquire::BreakerOpen(_) => {
                let message = "the circuit breaker of the endpoint is open";
                let error = JobError::retryable(message).with_code("receiver-failing");
                return Err(error.retry_in(inner.delay(&ctx, None)));
            }
        };
        let sent = inner.send(&ctx, &delivery, &destination, now).await;
        let took = inner.clock.now().since(now);
        let outcome = SendOutcome::of(sent, now);
        metrics::counter!("longhaul_deliveries_total", "outcome" => outcome.word()).increment(1);
        match outcome {
            SendOutcome::Delivered(result) => {
                in_flight.attempted();
                permit.success(took);
                Ok(result)
            }
            SendOutcome::Gone(attempt) => {
                permit.success(took);
                let () = record_attempt(&ctx, attempted + 1, attempt).await?;
                inner.disable(&tenant, &delivery).await;
                // Not recorded as attempted: deliveries behind it must wait until the 410 is stored.
                Err(gone())
            }
            SendOutcome::Failed { attempt, message, code, retry_after, is_down } => {
                in_flight.attempted();
                if is_down {
                    permit.failure(inner.clock.now());
                } else {
                    permit.success(took);
                }
                // Released before the attempt is stored.
                drop(permit);
                let () = record_attempt(&ctx, attempted + 1, attempt).await?;
                let error = JobError::retryable(message).with_code(code);
                Err(error.retry_in(inner.delay(&ctx, retry_after)))
            }
        }
    }
}

/// Stores an attempt as a step.
async fn record_attempt(
    ctx: &Ctx,
    number: usize,
    attempt: DeliveryAttempt,
) -> Result<(), JobError> {
    let _: DeliveryAttempt = ctx
        .step(step_name(number), || {
            let attempt = attempt.clone();
            async { Ok::<_, JobError>(attempt) }
        })
        .await?;
    Ok(())
}

fn step_name(number: usize) -> String {
    format!("try {number}")
}

/// Unreachable: a stored step is replayed, not run.
fn not_stored() -> JobError {
    JobError::fatal("a stored attempt is missing")
}

fn gone() -> JobError {
    JobError::fatal("the endpoint responded 410 Gone").with_code(GONE)
}

/// Snoozes a delivery while the store is unavailable, without charging an attempt.
async fn snooze_for_store<T>(ctx: &Ctx, error: &StoreError) -> Result<T, JobError> {
    tracing::warn!(%error, job.id = %ctx.id(), "store unavailable; delivery snoozed");
    Err(ctx.snooze(STORE_UNAVAILABLE_SNOOZE).await)
}

impl Inner {
    fn delay(&self, ctx: &Ctx, retry_after: Option<Duration>) -> Duration {
        self.schedule.delay(ctx.attempt(), retry_after, rand::random())
    }

    /// Returns the current destination. The inner error ends the delivery.
    async fn destination(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
    ) -> Result<Result<DeliveryDestination, JobError>, StoreError> {
        match &delivery.to {
            Receiver::Endpoint(id) => {
                let found = self.endpoints.endpoint(tenant, id).await?;
                Ok(found.ok_or_else(deleted).and_then(|endpoint| self.to_endpoint(endpoint)))
            }
            Receiver::Webhook(webhook) => Ok(self.to_webhook(tenant, webhook)),
        }
    }

    fn to_endpoint(&self, endpoint: Endpoint) -> Result<DeliveryDestination, JobError> {
        if !endpoint.enabled {
            let message = "the endpoint is disabled";
            return Err(JobError::fatal(message).with_code("endpoint-disabled"));
        }
        let (tenant, id) = (&endpoint.tenant, &endpoint.id);
        let now = self.clock.now();
        let former = endpoint.former_secret.as_ref().filter(|(_, until)| now < *until);
        let sealed = std::iter::once(&endpoint.sealed_secret);
        let sealed = sealed.chain(former.map(|(secret, _)| secret));
        let secrets = sealed.map(|sealed| self.open_secret(sealed, tenant, id));
        Ok(DeliveryDestination {
            secrets: secrets.collect::<Result<_, _>>()?,
            url: endpoint.url,
            full: endpoint.full,
            format: WebhookFormat::Standard,
        })
    }

    fn to_webhook(
        &self,
        tenant: &TenantId,
        webhook: &Webhook,
    ) -> Result<DeliveryDestination, JobError> {
        let secrets = match &webhook.sealed_secret {
            Some(sealed) => vec![self.open_secret(sealed, tenant, &webhook.url)?],
            None => self.secrets.all_of_tenant(tenant),
        };
        let Webhook { url, full, format, .. } = webhook.clone();
        Ok(DeliveryDestination { url, secrets, full, format })
    }

    /// Opens a sealed secret. A failure is retryable, because a missing server key may be restored.
    fn open_secret(
        &self,
        sealed: &str,
        tenant: &TenantId,
        of: &str,
    ) -> Result<SigningSecret, JobError> {
        self.secrets.open(sealed, tenant, of).map_err(|error| {
            JobError::retryable(format!("cannot open the signing secret: {error}"))
                .with_code("secret-sealed")
        })
    }

    async fn send(
        &self,
        ctx: &Ctx,
        delivery: &Delivery,
        destination: &DeliveryDestination,
        now: Timestamp,
    ) -> Result<EgressResponse, SendError> {
        let unfit = |error: serde_json::Error| SendError::Protocol(error.to_string());
        let whole = if destination.full { whole_result(ctx, delivery).await } else { None };
        let result = whole.as_deref().or(delivery.result.as_deref());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = match destination.format {
            WebhookFormat::Standard => {
                let body = event_body::bytes(delivery, result).map_err(unfit)?;
                let signed =
                    signature::headers(&delivery.message_id, now, &body, &destination.secrets);
                headers.extend(signed.map_err(|error| SendError::Protocol(error.to_string()))?);
                body
            }
            WebhookFormat::States => {
                let body = state_events::bytes(delivery, result).map_err(unfit)?;
                headers.extend(
                    self.secrets
                        .of_states()
                        .and_then(|secret| state_events::signature(secret, &body)),
                );
                body
            }
        };
        let request = EgressRequest {
            url: destination.url.clone(),
            method: Method::POST,
            headers,
            body: Bytes::from(body),
            timeout: self.timeout,
            body_prefix_max: BODY_PREFIX_DEFAULT,
        };
        self.client.send(request).await
    }

    /// Disables an endpoint that responded 410. For a job's webhook, later deliveries find the 410 themselves.
    async fn disable(&self, tenant: &TenantId, delivery: &Delivery) {
        let Receiver::Endpoint(id) = &delivery.to else { return };
        let now = self.clock.now();
        let reason = "the endpoint responded 410 Gone".to_owned();
        let change =
            EndpointChange { enabled: Some((false, Some(reason.clone()))), ..Default::default() };
        let audit = AuditEntry {
            id: format!("410-{}", delivery.message_id),
            at: now,
            tenant: tenant.clone(),
            actor: Actor::Server.to_string(),
            action: "endpoint.disable".to_owned(),
            target: id.clone(),
            detail: reason,
            request_id: String::new(),
        };
        if let Err(error) = self.endpoints.change_endpoint(tenant, id, &change, &audit).await {
            // The next delivery gets 410 again.
            tracing::warn!(%error, endpoint.id = id, "cannot disable an endpoint that responded 410");
        }
    }
}

/// Reads a result that is too large to be stored with the delivery, for endpoints with full payloads. `None` if it was
/// deleted: the event is then sent without it.
async fn whole_result(ctx: &Ctx, delivery: &Delivery) -> Option<Box<RawValue>> {
    if delivery.result.is_some() || !event_body::includes_result(delivery.event) {
        return None;
    }
    let result = ctx.parent().await.ok()?.result?;
    RawValue::from_string(result.as_str().to_owned()).ok()
}

fn deleted() -> JobError {
    JobError::fatal("the endpoint was deleted").with_code("endpoint-deleted")
}

enum SendOutcome {
    Delivered(DeliveryAttempt),
    Gone(DeliveryAttempt),
    Failed {
        attempt: DeliveryAttempt,
        message: String,
        code: String,
        retry_after: Option<Duration>,
        /// Counts as a failure for the circuit breaker.
        is_down: bool,
    },
}

impl SendOutcome {
    fn of(sent: Result<EgressResponse, SendError>, at: Timestamp) -> Self {
        match sent {
            Ok(response) => Self::of_response(&response, at),
            Err(error) => Self::Failed {
                attempt: DeliveryAttempt {
                    at,
                    status: None,
                    latency_ms: 0,
                    response: None,
                    error: Some(error.to_string()),
                },
                message: error.to_string(),
                code: error.code().to_owned(),
                retry_after: None,
                is_down: true,
            },
        }
    }

    fn of_response(response: &EgressResponse, at: Timestamp) -> Self {
        let status = response.status;
        let body = String::from_utf8_lossy(&response.body_prefix).replace('\0', "\u{fffd}");
        let attempt = DeliveryAttempt {
            at,
            status: Some(status.as_u16()),
            latency_ms: u64::try_from(response.latency.as_millis()).unwrap_or(u64::MAX),
            response: (!body.is_empty()).then_some(body),
            error: None,
        };
        if status.is_success() {
            return Self::Delivered(attempt);
        }
        if status == StatusCode::GONE {
            return Self::Gone(attempt);
        }
        let message = if status.is_redirection() {
            format!("the endpoint responded {status}; redirects are not followed")
        } else {
            format!("the endpoint responded {status}")
        };
        Self::Failed {
            attempt,
            message,
            code: format!("http-{}", status.as_u16()),
            retry_after: response.retry_after.map(|retry_after| retry_after.delay(at.into())),
            is_down: status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Delivered(_) => "arrived",
            Self::Gone(_) => "gone",
            Self::Failed { .. } => "failed",
        }
    }
}
