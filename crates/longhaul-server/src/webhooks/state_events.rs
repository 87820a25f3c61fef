//! State events of the chat API's format.

use axum::http::{HeaderName, HeaderValue};
use longhaul::job::{ChatState, Delivery};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::api::compat::chat::{self, ChatArtifact};
use crate::encoding;
use crate::hmac_signature;
use crate::secret::Secret;

/// HMAC-SHA256 of the body.
const X_FOREMAN_SIGNATURE: HeaderName = HeaderName::from_static("x-foreman-signature");

#[derive(Debug, Serialize)]
struct StateEventBody<'a> {
    job_id: Option<String>,
    state: Option<&'static str>,
    previous_state: Option<&'static str>,
    timestamp: String,
    model: Option<&'a str>,
    attempt: u32,
    error: Option<&'a str>,
    result: Option<&'a RawValue>,
    artifacts: Vec<ChatArtifact>,
}

/// Serializes the body, with the same bytes for every attempt. `result` is the job's, if the event includes it.
pub(super) fn bytes(
    delivery: &Delivery,
    result: Option<&RawValue>,
) -> Result<Vec<u8>, serde_json::Error> {
    let job = delivery.job.as_deref();
    let answer = result.and_then(chat::chat_result);
    let body = StateEventBody {
        job_id: job.map(|job| job.id.to_string()),
        state: job.map(|job| ChatState::of(job.status, job.phase.as_deref()).as_str()),
        previous_state: delivery.before.as_ref().map(|before| before.state().as_str()),
        timestamp: delivery.at.to_string(),
        model: job.and_then(chat::model),
        attempt: job.map_or(0, |job| job.attempt),
        error: job.and_then(|job| job.error.as_ref()).map(|error| error.message.as_str()),
        result: answer.as_deref().or(result),
        artifacts: job.map(chat::artifacts).unwrap_or_default(),
    };
    serde_json::to_vec(&body)
}

pub(super) fn signature(secret: &Secret, body: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let tag = hmac_signature::sign(secret.expose().as_bytes(), &[body]);
    let value = format!("sha256={}", encoding::hex(tag.as_ref()));
    Some((X_FOREMAN_SIGNATURE, HeaderValue::from_str(&value).ok()?))
}
