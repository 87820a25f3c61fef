//! Standard input of a program.

use std::collections::BTreeMap;

use longhaul::job::{Json, JsonError, Name};
use longhaul::{Job, JobId, Timestamp};
use serde::{Serialize, Serializer};

#[derive(Serialize)]
struct Stdin<'a> {
    input: &'a Json,
    #[serde(serialize_with = "in_order")]
    steps: &'a [(&'a str, Json)],
    job: JobInfo<'a>,
}

/// The job, with the field names of the HTTP API.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JobInfo<'a> {
    job_id: JobId,
    kind: &'a Name,
    queue: &'a Name,
    attempt: u32,
    max_attempts: u32,
    labels: &'a BTreeMap<String, String>,
    idempotency_key: Option<&'a str>,
    created_at: Timestamp,
}

/// Returns `{"input", "steps", "job"}` with the outputs verbatim and in order.
pub(super) fn text(input: &Json, outputs: &[(&str, Json)], job: &Job) -> Result<Json, JsonError> {
    let about = JobInfo {
        job_id: job.id,
        kind: &job.kind,
        queue: &job.queue,
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        labels: &job.labels,
        idempotency_key: job.idempotency_key.as_deref(),
        created_at: job.created_at,
    };
    Json::from_value(&Stdin { input, steps: outputs, job: about })
}

fn in_order<S: Serializer>(outputs: &[(&str, Json)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(outputs.iter().map(|(name, output)| (name, output)))
}
