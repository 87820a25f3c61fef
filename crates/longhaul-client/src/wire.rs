//! Wire types of the HTTP API.
//!
//! JSON keys are camelCase and instants are RFC 3339 in UTC with milliseconds. Requests reject
//! unknown fields, so that a misspelt option is an error; responses accept them, so that an older
//! client can talk to a newer server.

/// Defines types of responses. All keys are always present: the value is null if there is none.
macro_rules! responses {
    ($(
        $(#[$attribute:meta])*
        pub struct $name:ident { $($(#[$field_attribute:meta])* pub $field:ident: $type:ty,)* }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct $name {
            $(
                $(#[$field_attribute])*
                #[cfg_attr(feature = "openapi", schema(required))]
                pub $field: $type,
            )*
        }
    )*};
}

mod account;
mod bulk;
#[cfg(feature = "openapi")]
mod constraints;
mod history;
mod job;
mod json;
mod problem;
mod receipt;
mod status;
mod submit;
mod usage;
mod webhook;
mod work;

pub use account::{
    AuditEntry, AuditList, Key, KeyList, KeyRequest, LimitsPatch, NewKey, RotateRequest, Scope,
    Subscription, Tenant, TenantLimits, TenantList, TenantPatch, TenantRequest,
};
pub use bulk::{BulkRequest, BulkResult, JobFilter};
pub use history::{Attempt, AttemptList, ForkRequest, Step, StepList};
pub use job::{Artifact, Job, JobError, JobList, JobSummary, Progress};
pub use json::{Instant, RawJson};
pub use problem::Problem;
pub use receipt::{Receipt, Stored, StoredRole};
pub use status::{Status, UnknownStatus};
pub use submit::{
    BatchAnswer, BatchJob, BatchRequest, BatchResponse, RetentionRequest, SubmitRequest,
};
pub use usage::{UnknownUsageBy, Usage, UsageBy, UsageRow, UsageTotal};
pub use webhook::{
    Delivery, DeliveryAttempt, DeliveryFilter, DeliveryList, Endpoint, EndpointList, EndpointPatch,
    EndpointRequest, NewEndpoint, PayloadSize, ResendRequest, WebhookRequest, WebhookSecret,
};
pub use work::{Kind, KindList, Queue, QueueList, Replica, ReplicaList};
