//! Webhooks: endpoints, and what is owed to them.

use serde::{Deserialize, Serialize};

use super::json::from_object;
use super::{Instant, Status};

/// How much of a job is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PayloadSize {
    /// The job, without a result of more than 16 KiB.
    #[default]
    Thin,
    /// The job with its whole result.
    Full,
}

/// Who is told of what happens to one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookRequest {
    /// Where to.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 2048, example = "https://example.com/hooks")
    )]
    pub url: String,
    /// Of which events; all of them if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = json!(["job.completed", "job.failed"])))]
    pub events: Option<Vec<String>>,
    /// What deliveries are signed with, `whsec_…`; the tenant's own secret if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// How much of the job is sent; `thin` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSize>,
}

/// An endpoint that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndpointRequest {
    /// Where deliveries go.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 2048, example = "https://example.com/hooks")
    )]
    pub url: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub description: Option<String>,
    /// Which events it is told of; all of them if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<String>>,
    /// How much of a job is sent; `thin` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSize>,
}

/// A change of an endpoint. What is not given stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndpointPatch {
    /// Where deliveries go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub url: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub description: Option<String>,
    /// Which events it is told of; an empty list is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<String>>,
    /// How much of a job is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSize>,
    /// Whether it is told of anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// An endpoint: everything but its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Endpoint {
    /// Its id.
    pub id: String,
    /// Where deliveries go.
    pub url: String,
    /// For people.
    pub description: String,
    /// Which events it is told of; none is all of them.
    pub events: Vec<String>,
    /// How much of a job is sent.
    pub payload: PayloadSize,
    /// Whether it is told of anything.
    pub enabled: bool,
    /// Why it is not, if the server switched it off; null otherwise.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub disabled_reason: Option<String>,
    /// Until when deliveries are signed with the former secret too; null if they are not.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub former_secret_until: Option<Instant>,
    /// When it was made.
    pub created_at: Instant,
    /// When it was last changed.
    pub changed_at: Instant,
}

/// An endpoint that was just made or has a new secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewEndpoint {
    /// What deliveries are signed with: this is the only time that it is shown.
    pub secret: String,
    /// What is kept of it.
    #[serde(flatten)]
    pub kept: Endpoint,
}

impl std::fmt::Debug for NewEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewEndpoint").field("kept", &self.kept).finish_non_exhaustive()
    }
}

/// A page of endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndpointList {
    /// The endpoints, by id.
    pub endpoints: Vec<Endpoint>,
    /// Where the next page begins; null on the last.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// What jobs' own webhooks are signed with that were submitted without a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookSecret {
    /// `whsec_…`
    pub secret: String,
}

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecret")
    }
}

/// One event owed to one receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delivery {
    /// Its id.
    pub delivery_id: String,
    /// What the receiver knows it by, however often it is sent: the header `webhook-id`.
    pub message_id: String,
    /// What happened.
    #[serde(rename = "type")]
    pub event: String,
    /// The job that it happened to; null for a test.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub job_id: Option<String>,
    /// The endpoint that is told; null for the job's own webhook.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub endpoint_id: Option<String>,
    /// Where it goes, if that is not the endpoint's affair.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub url: Option<String>,
    /// Where it stands: `completed` has arrived, `failed` is a dead letter.
    pub status: Status,
    /// Attempts so far.
    pub attempt: u32,
    /// Attempts allowed.
    pub max_attempts: u32,
    /// When it happened.
    pub timestamp: Instant,
    /// When it is or was due.
    pub run_at: Instant,
    /// When it arrived or was given up; null until then.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub completed_at: Option<Instant>,
    /// When it will be forgotten; null until it has ended.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub expires_at: Option<Instant>,
    /// What went wrong last; null if nothing did.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub error: Option<String>,
    /// What the receiver said, oldest first; empty in lists.
    pub attempts: Vec<DeliveryAttempt>,
}

/// One attempt to deliver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryAttempt {
    /// When it began.
    pub at: Instant,
    /// The status of the answer; null if there was none.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub status: Option<u16>,
    /// Milliseconds until the answer.
    pub latency_ms: u64,
    /// The first kilobyte of the answer; null if it was empty.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub answer: Option<String>,
    /// Why there was none; null if there was.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub error: Option<String>,
}

/// A page of deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryList {
    /// The deliveries, newest first.
    pub deliveries: Vec<Delivery>,
    /// Where the next page begins; null on the last.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// Dead letters that are to be sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResendRequest {
    /// Which ones.
    #[serde(deserialize_with = "from_object")]
    pub filter: DeliveryFilter,
}

/// Which dead letters. Empty is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryFilter {
    /// Only those to this endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_id: Option<String>,
    /// Only those of this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Only those that tell this.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Only those of what happened at or after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Instant>,
}
