//! Webhook endpoints and deliveries.

use serde::{Deserialize, Serialize};

use super::json::from_object;
use super::{Instant, Status};

/// Amount of job data in a delivery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PayloadSize {
    /// The job, without a result above 16 KiB.
    #[default]
    Thin,
    /// The job with its full result.
    Full,
}

/// Webhook for the events of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookRequest {
    /// URL of the receiver.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 2048, pattern = "^https?://", example = "https://example.com/hooks")
    )]
    pub url: String,
    /// Events to deliver. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(schema_with = super::constraints::events))]
    pub events: Option<Vec<String>>,
    /// Signing secret, `whsec_` and 24 to 64 bytes in base64. Defaults to the tenant's secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(
            pattern = "^whsec_((([A-Za-z0-9+/]{4}){8,20}([A-Za-z0-9+/][AQgw](==)?|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=?)?)|(([A-Za-z0-9+/]{4}){21}([A-Za-z0-9+/][AQgw](==)?)?))$"
        )
    )]
    pub secret: Option<String>,
    /// Amount of job data. Defaults to `thin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSize>,
}

/// A webhook endpoint to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndpointRequest {
    /// URL of the receiver.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 2048, pattern = "^https?://", example = "https://example.com/hooks")
    )]
    pub url: String,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")
    )]
    pub description: Option<String>,
    /// Events to deliver. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(schema_with = super::constraints::events))]
    pub events: Option<Vec<String>>,
    /// Amount of job data. Defaults to `thin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSize>,
}

/// A change of a webhook endpoint. Absent fields keep their value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndpointPatch {
    /// URL of the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048, pattern = "^https?://"))]
    pub url: Option<String>,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")
    )]
    pub description: Option<String>,
    /// Events to deliver; an empty list is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(schema_with = super::constraints::events))]
    pub events: Option<Vec<String>>,
    /// Amount of job data in a delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadSize>,
    /// False to stop deliveries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

responses! {
    /// A webhook endpoint without its secret.
    pub struct Endpoint {
        /// Unique id.
        pub id: String,
        /// URL of the receiver.
        pub url: String,
        /// Description for people.
        pub description: String,
        /// Events to deliver; an empty list is all.
        pub events: Vec<String>,
        /// Amount of job data in a delivery.
        pub payload: PayloadSize,
        /// False to stop deliveries.
        pub enabled: bool,
        /// Reason, if the server disabled the endpoint; null otherwise.
        pub disabled_reason: Option<String>,
        /// Time until which deliveries are also signed with the former secret; null if they are not.
        pub former_secret_until: Option<Instant>,
        /// Time of creation.
        pub created_at: Instant,
        /// Time of the last change.
        pub changed_at: Instant,
    }
}

/// A webhook endpoint with a new secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewEndpoint {
    /// Signing secret. The server does not return it again.
    pub secret: String,
    /// The endpoint without its secret.
    #[serde(flatten)]
    pub endpoint: Endpoint,
}

impl std::fmt::Debug for NewEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewEndpoint").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

responses! {
    /// A page of webhook endpoints.
    pub struct EndpointList {
        /// Endpoints by id.
        pub endpoints: Vec<Endpoint>,
        /// `cursor` of the next page; null on the last page.
        pub next_cursor: Option<String>,
    }
}

/// The tenant's signing secret, for webhooks of jobs that were submitted without one.
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

responses! {
    /// One event for one receiver.
    pub struct Delivery {
        /// Unique id.
        pub delivery_id: String,
        /// Header `webhook-id`, the same for every attempt.
        pub message_id: String,
        /// Type of the event.
        #[serde(rename = "type")]
        pub event: String,
        /// Job of the event; null for a test.
        pub job_id: Option<String>,
        /// Endpoint that receives it; null for the webhook of a job.
        pub endpoint_id: Option<String>,
        /// URL of the receiver; null for an endpoint.
        pub url: Option<String>,
        /// Status: `completed` is delivered, `failed` is a dead letter.
        pub status: Status,
        /// Attempts so far.
        pub attempt: u32,
        /// Attempts allowed.
        pub max_attempts: u32,
        /// Time of the event.
        pub timestamp: Instant,
        /// Time from which it may be sent.
        pub run_at: Instant,
        /// Time at which it was delivered or failed; null before.
        pub completed_at: Option<Instant>,
        /// Time at which it will be deleted; null before it finished.
        pub expires_at: Option<Instant>,
        /// Last error; null if there is none.
        pub error: Option<String>,
        /// Attempts, oldest first; empty in lists.
        pub attempts: Vec<DeliveryAttempt>,
    }

    /// One attempt of a delivery.
    pub struct DeliveryAttempt {
        /// Start of the attempt.
        pub at: Instant,
        /// HTTP status of the response; null without one.
        pub status: Option<u16>,
        /// Milliseconds until the response.
        pub latency_ms: u64,
        /// First kilobyte of the response; null if it was empty.
        pub answer: Option<String>,
        /// Reason without a response; null otherwise.
        pub error: Option<String>,
    }

    /// A page of deliveries.
    pub struct DeliveryList {
        /// Deliveries, newest first; may be fewer than `limit`, or none, although there is a next page.
        pub deliveries: Vec<Delivery>,
        /// `cursor` of the next page; null on the last page only.
        pub next_cursor: Option<String>,
    }
}

/// Dead letters to resend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResendRequest {
    /// Filter for dead letters.
    #[serde(deserialize_with = "from_object")]
    pub filter: DeliveryFilter,
}

/// Filter for dead letters. An empty filter matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryFilter {
    /// Matches deliveries to this endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_id: Option<String>,
    /// Matches events of this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$")
    )]
    pub job_id: Option<String>,
    /// Matches this type of event.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(schema_with = super::constraints::event_filter))]
    pub event: Option<String>,
    /// Matches events at or after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Instant>,
}
