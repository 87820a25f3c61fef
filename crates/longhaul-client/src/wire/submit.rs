//! Submission of single jobs and batches.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::json::from_object_or_null;
use super::{Instant, Job, Problem, RawJson, WebhookRequest};
use crate::duration::DurationText;

/// Defines [`SubmitRequest`] and [`BatchJob`] with one declaration of their common fields, because
/// serde cannot reject unknown fields through a flattened struct.
macro_rules! submit_types {
    ($($(#[$attribute:meta])* $field:ident: $type:ty,)*) => {
        /// A job to submit.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct SubmitRequest {
            $($(#[$attribute])* pub $field: $type,)*
        }

        /// One job of a batch: a [`SubmitRequest`] with an idempotency key.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct BatchJob {
            /// Idempotency key: the server accepts one job per key.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[cfg_attr(feature = "openapi", schema(pattern = "^[!-~]{1,255}$"))]
            pub idempotency_key: Option<String>,
            $($(#[$attribute])* pub $field: $type,)*
        }

        impl BatchJob {
            /// Creates the batch item of a submission.
            pub fn new(idempotency_key: Option<String>, request: SubmitRequest) -> Self {
                Self { idempotency_key, $($field: request.$field,)* }
            }

            /// Returns the idempotency key and the submission.
            pub fn into_parts(self) -> (Option<String>, SubmitRequest) {
                (self.idempotency_key, SubmitRequest { $($field: self.$field,)* })
            }
        }
    };
}

submit_types! {
    /// Kind of the job: the handler that runs it.
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", example = "demo")
    )]
    kind: String,
    /// Input of the job.
    input: RawJson,
    /// Queue of the job. Defaults to the queue of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    queue: Option<String>,
    /// Jobs with a higher priority start first. Defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = -100, maximum = 100))]
    priority: Option<i32>,
    /// Earliest start. Cannot be combined with `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_at: Option<Instant>,
    /// Delay before the first attempt, for example `5m`. Cannot be combined with `runAt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay: Option<DurationText>,
    /// Attempts allowed. Defaults to the number of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    max_attempts: Option<u32>,
    /// Timeout of one attempt. Defaults to the timeout of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<DurationText>,
    /// Labels to find the job by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_null")]
    #[cfg_attr(feature = "openapi", schema(schema_with = super::constraints::labels))]
    labels: BTreeMap<String, String>,
    /// Time to keep the job after it finished. Defaults to the server's configuration.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "from_object_or_null"
    )]
    retention: Option<RetentionRequest>,
    /// Webhook for events of this job, in addition to the tenant's endpoints.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "from_object_or_null"
    )]
    webhook: Option<WebhookRequest>,
}

impl SubmitRequest {
    /// Creates a submission with the defaults of the kind and the server.
    ///
    /// ```
    /// # use longhaul_client::wire::SubmitRequest;
    /// let mut request = SubmitRequest::new("demo", &serde_json::json!({"steps": 3}))?;
    /// request.max_attempts = Some(5);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn new(
        kind: impl Into<String>,
        input: &(impl Serialize + ?Sized),
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            kind: kind.into(),
            input: RawJson::from_value(input)?,
            queue: None,
            priority: None,
            run_at: None,
            delay: None,
            max_attempts: None,
            timeout: None,
            labels: BTreeMap::new(),
            retention: None,
            webhook: None,
        })
    }
}

/// Reads null as the default, as for the optional fields.
fn or_null<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Time to keep a job after it finished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetentionRequest {
    /// After it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<DurationText>,
    /// After it failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<DurationText>,
}

/// Jobs to submit together. Each is accepted or rejected on its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchRequest {
    /// At most 1,000, each a `BatchJob`. An invalid item is rejected on its own.
    #[cfg_attr(feature = "openapi", schema(schema_with = batch_jobs))]
    pub jobs: Vec<BatchJob>,
}

/// Allows any item beside `BatchJob`, because a batch with an invalid item is still a valid batch.
#[cfg(feature = "openapi")]
fn batch_jobs() -> utoipa::openapi::schema::Array {
    use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, SchemaType};
    let anything = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
    let job = utoipa::openapi::Ref::from_schema_name("BatchJob");
    let items = AnyOfBuilder::new().item(job).item(anything);
    ArrayBuilder::new().items(items).max_items(Some(1_000)).build()
}

/// Results of a batch, in the order of its jobs.
pub type BatchResponse = Vec<BatchAnswer>;

/// Result of one job of a batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BatchAnswer {
    /// The accepted job, from this request or an earlier one with the same key.
    Job(Box<Job>),
    /// Reason of the rejection.
    Problem(Box<Problem>),
}

// Written out, because serde's untagged enums buffer their input, which `RawJson` cannot pass through.
impl<'de> Deserialize<'de> for BatchAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Probe {
            job_id: Option<serde::de::IgnoredAny>,
        }

        let text = Box::<RawValue>::deserialize(deserializer)?;
        let read = || match serde_json::from_str::<Probe>(text.get())?.job_id {
            Some(_) => serde_json::from_str(text.get()).map(Self::Job),
            None => serde_json::from_str(text.get()).map(Self::Problem),
        };
        read().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submit_request_rejects_unknown_fields_by_name() {
        let text = r#"{"kind":"demo","input":{},"maxAttemps":3}"#;
        let refusal = serde_json::from_str::<SubmitRequest>(text).unwrap_err().to_string();
        assert!(refusal.contains("maxAttemps"), "{refusal}");
    }

    #[test]
    fn submit_request_durations_are_text() {
        let text = r#"{"kind":"demo","input":{},"delay":"5m","retention":{"failed":"7d"}}"#;
        let request: SubmitRequest = serde_json::from_str(text).unwrap();
        assert_eq!(request.delay.map(|delay| delay.0.as_secs()), Some(300));
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
    }

    #[test]
    fn batch_answer_is_a_job_or_a_problem() {
        let text = r#"[{"type":"about:blank","title":"Unknown kind","status":422,"detail":"d","code":"unknown-kind","requestId":"r"}]"#;
        let answers: BatchResponse = serde_json::from_str(text).unwrap();
        assert!(matches!(&answers[0], BatchAnswer::Problem(problem) if problem.status == 422));
        assert_eq!(serde_json::to_string(&answers).unwrap(), text);
    }

    #[test]
    fn batch_job_splits_into_key_and_submission() {
        let request = SubmitRequest::new("demo", &1).unwrap();
        let (key, same) = BatchJob::new(Some("k".to_owned()), request.clone()).into_parts();
        assert_eq!((key.as_deref(), same), (Some("k"), request));
    }
}
