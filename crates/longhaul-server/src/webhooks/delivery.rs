//! One attempt of one delivery.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use longhaul::job::{Delivery, Json, Receiver, Webhook, WebhookFormat};
use longhaul::store::StoreError;
use longhaul::store::accounts::{Actor, AuditEntry};
use longhaul::store::endpoints::{Endpoint, EndpointChange};
use longhaul::{Ctx, JobError, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::endpoint_limits::Entry;
use super::ordering::{GONE, Turn, was_tried};
use super::signature::{self, SigningSecret};
use super::{Inner, WebhookDispatcher, event_body, state_events};
use longhaul_net::egress::{BODY_PREFIX_DEFAULT, EgressRequest, EgressResponse, SendError};

/// How soon a delivery is tried that found no place at its receiver, at least and at most, about: a quarter of
/// its age, so that a thousand that wait for one that is slow do not keep the store busy.
const NO_PLACE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// How soon one is tried whose receiver is left alone, at least.
const LEFT_ALONE: Duration = Duration::from_secs(5);
/// How long a delivery that was never sent waits for a receiver that is left alone, before that counts as an
/// attempt: one that is down for good must not keep everything from becoming a dead letter.
const FIRST_PATIENCE: Duration = Duration::from_mins(5);
/// How soon one is tried that could not find out where to go.
const STORE_AWAY: Duration = Duration::from_secs(2);

/// What a receiver said to an attempt that failed, or why it said nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Try {
    /// When.
    pub at: Timestamp,
    /// The status of the answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long it took.
    pub latency_ms: u64,
    /// The beginning of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The result of a delivery's job: what the receiver said.
pub type Arrived = Try;

/// Where a delivery goes and how it is signed.
struct Address {
    url: String,
    secrets: Vec<SigningSecret>,
    full: bool,
    format: WebhookFormat,
}

impl WebhookDispatcher {
    pub(super) async fn deliver(&self, ctx: Ctx, delivery: Delivery) -> Result<Arrived, JobError> {
        let inner = &*self.0;
        let tenant = ctx.job().tenant.owner();
        // What earlier attempts found out: asked for, because a job asks for all that it stored.
        let tried = ctx.finished_steps().len();
        for place in 1..=tried {
            let _: Try = ctx.step(step_name(place), || async { Err(not_stored()) }).await?;
        }
        let address = match inner.address(&tenant, &delivery).await {
            Ok(address) => address?,
            Err(error) => return away(&ctx, &error).await,
        };
        let job = ctx.job();
        if tried == 0 && !was_tried(job) {
            match inner.order.turn(&*inner.store, job, &inner.clock).await {
                Ok(Turn::Now) => {}
                Ok(Turn::Later(delay)) => return Err(ctx.snooze(delay).await),
                Ok(Turn::Unwanted) => return Err(gone()),
                Err(error) => return away(&ctx, &error).await,
            }
        }
        let under_way = inner.order.begin(ctx.id());
        let entry = inner.gates.enter_soon(&job.queue, &inner.clock).await;
        let now = inner.clock.now();
        let pass = match entry {
            Entry::Open(pass) => pass,
            Entry::Full => {
                let delay = (now.since(job.created_at) / 4).clamp(NO_PLACE.0, NO_PLACE.1);
                return Err(ctx.snooze(delay.mul_f64(0.5 + rand::random::<f64>())).await);
            }
            // What was never sent waits a while for its turn, so that first deliveries stay in order.
            Entry::Alone(until) if tried == 0 && now.since(job.created_at) < FIRST_PATIENCE => {
                // Spread: of all that wait for it only one may try.
                let delay = until.since(now).max(LEFT_ALONE);
                return Err(ctx.snooze(delay.mul_f64(1.0 + 2.0 * rand::random::<f64>())).await);
            }
            Entry::Alone(_) => {
                let message = "the receiver keeps failing and is left alone for a moment";
                let error = JobError::retryable(message).with_code("receiver-failing");
                return Err(error.retry_in(inner.delay(&ctx, None)));
            }
        };
        let sent = inner.send(&tenant, &delivery, &address, now).await;
        let took = inner.clock.now().since(now);
        let outcome = Outcome::of(sent, now);
        metrics::counter!("longhaul_deliveries_total", "outcome" => outcome.word()).increment(1);
        match outcome {
            Outcome::Arrived(arrived) => {
                under_way.tried();
                pass.well(took);
                Ok(arrived)
            }
            Outcome::Gone(attempt) => {
                pass.well(took);
                let () = remember(&ctx, tried + 1, attempt).await?;
                inner.stop(&tenant, &delivery).await;
                // Not noted as tried: those behind it have to wait until it is stored that they are unwanted.
                Err(gone())
            }
            Outcome::Failed { attempt, message, code, asked, is_down } => {
                under_way.tried();
                if is_down {
                    pass.failed(inner.clock.now());
                } else {
                    pass.well(took);
                }
                // Its place is free before the store is told.
                drop(pass);
                let () = remember(&ctx, tried + 1, attempt).await?;
                let error = JobError::retryable(message).with_code(code);
                Err(error.retry_in(inner.delay(&ctx, asked)))
            }
        }
    }
}

/// Stores what an attempt found out.
async fn remember(ctx: &Ctx, place: usize, attempt: Try) -> Result<(), JobError> {
    let _: Try = ctx
        .step(step_name(place), || {
            let attempt = attempt.clone();
            async { Ok::<_, JobError>(attempt) }
        })
        .await?;
    Ok(())
}

fn step_name(place: usize) -> String {
    format!("try {place}")
}

/// A step that is stored is never run.
fn not_stored() -> JobError {
    JobError::fatal("an attempt that was stored is not there")
}

fn gone() -> JobError {
    JobError::fatal("the receiver answered 410: it wants nothing more").with_code(GONE)
}

/// The store does not answer: that is no fault of the receiver, and charges no attempt.
async fn away<T>(ctx: &Ctx, error: &StoreError) -> Result<T, JobError> {
    tracing::warn!(%error, job.id = %ctx.id(), "a delivery waits for the store");
    Err(ctx.snooze(STORE_AWAY).await)
}

impl Inner {
    fn delay(&self, ctx: &Ctx, asked: Option<Duration>) -> Duration {
        self.schedule.delay(ctx.attempt(), asked, rand::random())
    }

    /// Where it goes, as that is now. The inner error is the delivery's end.
    async fn address(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
    ) -> Result<Result<Address, JobError>, StoreError> {
        match &delivery.to {
            Receiver::Endpoint(id) => {
                let found = self.endpoints.endpoint(tenant, id).await?;
                Ok(found.ok_or_else(deleted).and_then(|endpoint| self.to_endpoint(endpoint)))
            }
            Receiver::Webhook(webhook) => Ok(self.to_webhook(tenant, webhook)),
        }
    }

    fn to_endpoint(&self, endpoint: Endpoint) -> Result<Address, JobError> {
        if !endpoint.enabled {
            let message = "the endpoint is disabled";
            return Err(JobError::fatal(message).with_code("endpoint-disabled"));
        }
        let (tenant, id) = (&endpoint.tenant, &endpoint.id);
        let now = self.clock.now();
        let former = endpoint.former_secret.as_ref().filter(|(_, until)| now < *until);
        let sealed = std::iter::once(&endpoint.sealed_secret);
        let sealed = sealed.chain(former.map(|(secret, _)| secret));
        let secrets = sealed.map(|sealed| {
            self.secrets.open(sealed, tenant, id).map_err(|error| sealed_off(&error))
        });
        Ok(Address {
            secrets: secrets.collect::<Result<_, _>>()?,
            url: endpoint.url,
            full: endpoint.full,
            format: WebhookFormat::Standard,
        })
    }

    fn to_webhook(&self, tenant: &TenantId, webhook: &Webhook) -> Result<Address, JobError> {
        let secrets = match &webhook.sealed_secret {
            Some(sealed) => {
                vec![
                    self.secrets
                        .open(sealed, tenant, &webhook.url)
                        .map_err(|error| sealed_off(&error))?,
                ]
            }
            None => self.secrets.all_of_tenant(tenant),
        };
        let Webhook { url, full, format, .. } = webhook.clone();
        Ok(Address { url, secrets, full, format })
    }

    async fn send(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
        address: &Address,
        now: Timestamp,
    ) -> Result<EgressResponse, SendError> {
        let unfit = |error: serde_json::Error| SendError::Protocol(error.to_string());
        let whole = self.whole_result(tenant, delivery, address.full).await;
        let result = whole.as_deref().or(delivery.result.as_deref());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = match address.format {
            WebhookFormat::Standard => {
                let body = event_body::bytes(delivery, result).map_err(unfit)?;
                let signed = signature::headers(&delivery.message_id, now, &body, &address.secrets);
                headers.extend(signed.map_err(|error| SendError::Protocol(error.to_string()))?);
                body
            }
            WebhookFormat::States => {
                let body = state_events::bytes(delivery, result).map_err(unfit)?;
                headers.extend(
                    self.secrets.of_states().and_then(|secret| state_events::signed(secret, &body)),
                );
                body
            }
        };
        let body = Bytes::from(body);
        let request = EgressRequest {
            url: address.url.clone(),
            method: Method::POST,
            headers,
            body,
            timeout: self.timeout,
            body_prefix_max: BODY_PREFIX_DEFAULT,
        };
        self.client.send(request).await
    }

    /// A result that is too large to be kept with the delivery, for those who want it all the same. None if
    /// it is gone: then they get the event without it.
    async fn whole_result(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
        full: bool,
    ) -> Option<Box<serde_json::value::RawValue>> {
        let job = delivery.job.as_ref().filter(|_| full && delivery.result.is_none())?;
        if !event_body::tells_result(delivery.event) {
            return None;
        }
        let record = self.store.job(tenant, job.id).await.ok()?;
        let text = record.result.as_ref().map(Json::as_str)?.to_owned();
        serde_json::value::RawValue::from_string(text).ok()
    }

    /// The receiver wants nothing more. An endpoint is switched off; a job's own webhook is found out by the
    /// deliveries that follow.
    async fn stop(&self, tenant: &TenantId, delivery: &Delivery) {
        let Receiver::Endpoint(id) = &delivery.to else { return };
        let now = self.clock.now();
        let reason = "the receiver answered 410 Gone".to_owned();
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
            // The next delivery is answered with 410 again.
            tracing::warn!(%error, endpoint.id = id, "an endpoint that is gone stays enabled");
        }
    }
}

fn deleted() -> JobError {
    JobError::fatal("the endpoint was deleted").with_code("endpoint-deleted")
}

/// The server's key that the secret is sealed with is missing: it may be put back.
fn sealed_off(error: &longhaul::blob::KeyError) -> JobError {
    JobError::retryable(format!("the secret cannot be opened: {error}")).with_code("secret-sealed")
}

/// What became of an attempt.
enum Outcome {
    Arrived(Arrived),
    /// The receiver wants nothing more.
    Gone(Try),
    Failed {
        attempt: Try,
        message: String,
        code: String,
        /// How long the receiver wants us to wait.
        asked: Option<Duration>,
        /// Whether that speaks against the receiver as a whole.
        is_down: bool,
    },
}

impl Outcome {
    fn of(sent: Result<EgressResponse, SendError>, at: Timestamp) -> Self {
        match sent {
            Ok(answer) => Self::of_answer(&answer, at),
            Err(error) => Self::Failed {
                attempt: Try {
                    at,
                    status: None,
                    latency_ms: 0,
                    answer: None,
                    error: Some(error.to_string()),
                },
                message: error.to_string(),
                code: error.code().to_owned(),
                asked: None,
                is_down: true,
            },
        }
    }

    fn of_answer(answer: &EgressResponse, at: Timestamp) -> Self {
        let status = answer.status;
        let said = String::from_utf8_lossy(&answer.body_prefix).replace('\0', "\u{fffd}");
        let attempt = Try {
            at,
            status: Some(status.as_u16()),
            latency_ms: u64::try_from(answer.latency.as_millis()).unwrap_or(u64::MAX),
            answer: (!said.is_empty()).then_some(said),
            error: None,
        };
        if status.is_success() {
            return Self::Arrived(attempt);
        }
        if status == StatusCode::GONE {
            return Self::Gone(attempt);
        }
        let message = if status.is_redirection() {
            format!("the receiver answered {status}; redirects are not followed")
        } else {
            format!("the receiver answered {status}")
        };
        Self::Failed {
            attempt,
            message,
            code: format!("http-{}", status.as_u16()),
            asked: answer.retry_after.map(|retry_after| retry_after.delay(at.into())),
            is_down: status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Arrived(_) => "arrived",
            Self::Gone(_) => "gone",
            Self::Failed { .. } => "failed",
        }
    }
}
