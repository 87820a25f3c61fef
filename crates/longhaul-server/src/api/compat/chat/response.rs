//! A chat job as callers of `GET /jobs/{id}` and receivers of its states see it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use longhaul::job::{JobState, Record};
use longhaul::store::StoreError;
use longhaul::{Engine, Job};
use longhaul_client::wire::RawJson;
use longhaul_kinds::chat::{ChatCall, ChatResult};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::encoding;
use crate::problem::Problem;
use crate::to_wire;

/// The label that says which model a job asks for.
pub(crate) const MODEL_LABEL: &str = "model";

/// The job.
#[derive(Debug, Serialize)]
struct Shown {
    job_id: String,
    state: &'static str,
    result: Option<RawJson>,
    error: Option<String>,
    artifacts: Vec<ShownArtifact>,
    attempt: u32,
    model: Option<String>,
    target: Option<String>,
    created_at: String,
    started_at: Option<String>,
    completed_at: Option<String>,
}

/// Something that a job produced besides its answer.
#[derive(Debug, Serialize)]
pub(crate) struct ShownArtifact {
    name: String,
    content_type: String,
    size: u64,
    url: String,
}

/// The artifacts of a job and where they are.
pub(crate) fn artifacts(job: &Job) -> Vec<ShownArtifact> {
    let shown = |artifact: &longhaul::job::Artifact| ShownArtifact {
        url: format!("/jobs/{}/artifacts/{}", job.id, encoding::path_segment(&artifact.name)),
        name: artifact.name.clone(),
        content_type: artifact.content_type.clone(),
        size: artifact.size,
    };
    job.artifacts.iter().map(shown).collect()
}

/// The model that a job was submitted for, if the door submitted it.
pub(crate) fn model(job: &Job) -> Option<&str> {
    job.labels.get(MODEL_LABEL).map(String::as_str)
}

/// What a caller is answered, of a chat's result.
pub(crate) fn answered(result: &RawValue) -> Option<Box<RawValue>> {
    let answer: ChatResult = serde_json::from_str(result.get()).ok()?;
    RawValue::from_string(answer.body.as_str().to_owned()).ok()
}

/// The job as it stands.
pub(crate) async fn show(engine: &Engine, record: Record) -> Result<Response, Problem> {
    let job = &record.job;
    let answer: Option<ChatResult> = record.result.as_ref().and_then(|result| result.to().ok());
    let shown = Shown {
        job_id: job.id.to_string(),
        state: JobState::of(job.status, job.phase.as_deref()).as_str(),
        result: answer.as_ref().map(|answer| to_wire::raw(&answer.body)).transpose()?,
        error: job.error.as_ref().map(|error| error.message.clone()),
        artifacts: artifacts(job),
        attempt: job.attempt,
        model: match model(job) {
            Some(model) => Some(model.to_owned()),
            None => asked_model(engine, job).await?,
        },
        target: answer.map(|answer| answer.target),
        created_at: job.created_at.to_string(),
        started_at: job.started_at.map(|at| at.to_string()),
        completed_at: job.completed_at.map(|at| at.to_string()),
    };
    Ok(Json(shown).into_response())
}

/// The model of a job that came by another way than this door.
async fn asked_model(engine: &Engine, job: &Job) -> Result<Option<String>, StoreError> {
    let call: Option<ChatCall> = engine.input(job.id).await?.to().ok();
    Ok(call.and_then(|call| call.model()))
}
