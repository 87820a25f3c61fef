//! Submitting: one job, or up to a thousand at once.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::json::from_object_or_null;
use super::{Instant, Job, Problem, RawJson, WebhookRequest};
use crate::duration::DurationText;

/// What to run, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SubmitRequest {
    /// Which handler runs it.
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", example = "demo")
    )]
    pub kind: String,
    /// What goes in.
    pub input: RawJson,
    /// The lane it waits in; the kind's own unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub queue: Option<String>,
    /// Higher goes first; 0 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = -100, maximum = 100))]
    pub priority: Option<i32>,
    /// Not before this. Not together with `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Instant>,
    /// Not before so long from now. Not together with `runAt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
    /// Attempts allowed; the kind's own unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub max_attempts: Option<u32>,
    /// How long one attempt may take; the kind's own unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// The submitter's own words on it, to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_null")]
    #[cfg_attr(feature = "openapi", schema(nullable))]
    pub labels: BTreeMap<String, String>,
    /// How long it is kept once it has ended; the server's own unless given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "from_object_or_null"
    )]
    pub retention: Option<RetentionRequest>,
    /// Who is told of what happens to it, besides the tenant's endpoints.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "from_object_or_null"
    )]
    pub webhook: Option<WebhookRequest>,
}

impl SubmitRequest {
    /// A job of `kind` with everything else as the kind and the server have it.
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

/// Null says no more than leaving it out, as it does for the other fields.
fn or_null<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// How long a job is kept once it has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetentionRequest {
    /// After completing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<DurationText>,
    /// After failing or being cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<DurationText>,
}

/// Jobs to submit together. Each is accepted or refused on its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchRequest {
    /// At most 1,000, each a `BatchJob`; one that is not is refused on its own.
    #[cfg_attr(feature = "openapi", schema(schema_with = batch_jobs))]
    pub jobs: Vec<BatchJob>,
}

/// The items are described and not prescribed: a batch with one that does not fit is still a batch.
#[cfg(feature = "openapi")]
fn batch_jobs() -> utoipa::openapi::schema::Array {
    use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, SchemaType};
    let anything = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
    let job = utoipa::openapi::Ref::from_schema_name("BatchJob");
    let items = AnyOfBuilder::new().item(job).item(anything);
    ArrayBuilder::new().items(items).max_items(Some(1_000)).build()
}

/// One job of a batch: a [`SubmitRequest`] with its own idempotency key.
///
/// Spelt out, because serde cannot refuse unknown fields through a flattened struct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchJob {
    /// The key under which this job is accepted once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Which handler runs it.
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", example = "demo")
    )]
    pub kind: String,
    /// What goes in.
    pub input: RawJson,
    /// The lane it waits in; the kind's own unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub queue: Option<String>,
    /// Higher goes first; 0 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = -100, maximum = 100))]
    pub priority: Option<i32>,
    /// Not before this. Not together with `delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Instant>,
    /// Not before so long from now. Not together with `runAt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
    /// Attempts allowed; the kind's own unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub max_attempts: Option<u32>,
    /// How long one attempt may take; the kind's own unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
    /// The submitter's own words on it, to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_null")]
    #[cfg_attr(feature = "openapi", schema(nullable))]
    pub labels: BTreeMap<String, String>,
    /// How long it is kept once it has ended; the server's own unless given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "from_object_or_null"
    )]
    pub retention: Option<RetentionRequest>,
    /// Who is told of what happens to it, besides the tenant's endpoints.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "from_object_or_null"
    )]
    pub webhook: Option<WebhookRequest>,
}

impl BatchJob {
    /// Puts a submission into a batch.
    pub fn new(idempotency_key: Option<String>, request: SubmitRequest) -> Self {
        let SubmitRequest {
            kind,
            input,
            queue,
            priority,
            run_at,
            delay,
            max_attempts,
            timeout,
            labels,
            retention,
            webhook,
        } = request;
        Self {
            idempotency_key,
            kind,
            input,
            queue,
            priority,
            run_at,
            delay,
            max_attempts,
            timeout,
            labels,
            retention,
            webhook,
        }
    }

    /// Takes it apart again: its key, and the submission.
    pub fn into_parts(self) -> (Option<String>, SubmitRequest) {
        let request = SubmitRequest {
            kind: self.kind,
            input: self.input,
            queue: self.queue,
            priority: self.priority,
            run_at: self.run_at,
            delay: self.delay,
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            labels: self.labels,
            retention: self.retention,
            webhook: self.webhook,
        };
        (self.idempotency_key, request)
    }
}

/// The answers to a batch, as many and in the same order.
pub type BatchResponse = Vec<BatchAnswer>;

/// The answer to one job of a batch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BatchAnswer {
    /// It was accepted, now or earlier under its key.
    Job(Box<Job>),
    /// It was refused.
    Problem(Box<Problem>),
}

// By hand: serde's own untagged reading buffers, which a raw result cannot pass through.
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
    fn a_misspelt_option_is_refused_by_name() {
        let text = r#"{"kind":"demo","input":{},"maxAttemps":3}"#;
        let refusal = serde_json::from_str::<SubmitRequest>(text).unwrap_err().to_string();
        assert!(refusal.contains("maxAttemps"), "{refusal}");
    }

    #[test]
    fn durations_are_text() {
        let text = r#"{"kind":"demo","input":{},"delay":"5m","retention":{"failed":"7d"}}"#;
        let request: SubmitRequest = serde_json::from_str(text).unwrap();
        assert_eq!(request.delay.map(|delay| delay.0.as_secs()), Some(300));
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
    }

    #[test]
    fn a_batch_answer_is_a_job_or_a_problem() {
        let text = r#"[{"type":"about:blank","title":"Unknown kind","status":422,"detail":"d","code":"unknown-kind","requestId":"r"}]"#;
        let answers: BatchResponse = serde_json::from_str(text).unwrap();
        assert!(matches!(&answers[0], BatchAnswer::Problem(problem) if problem.status == 422));
        assert_eq!(serde_json::to_string(&answers).unwrap(), text);
    }

    #[test]
    fn a_submission_survives_its_batch() {
        let request = SubmitRequest::new("demo", &1).unwrap();
        let (key, same) = BatchJob::new(Some("k".to_owned()), request.clone()).into_parts();
        assert_eq!((key.as_deref(), same), (Some("k"), request));
    }
}
