//! Chat jobs in the format of `GET /jobs/{id}` and of state events.

use axum::Json;
use axum::response::{IntoResponse, Response};
use longhaul::job::{ChatState, Record};
use longhaul::store::StoreError;
use longhaul::{Engine, Job};
use longhaul_client::wire::RawJson;
use longhaul_kinds::chat::{ChatCall, ChatResult};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::encoding;
use crate::problem::Result;
use crate::to_wire;

/// Label with the requested model.
pub(crate) const MODEL_LABEL: &str = "model";

#[derive(Debug, Serialize)]
struct ChatJob {
    job_id: String,
    state: &'static str,
    result: Option<RawJson>,
    error: Option<String>,
    artifacts: Vec<ChatArtifact>,
    attempt: u32,
    model: Option<String>,
    target: Option<String>,
    created_at: String,
    started_at: Option<String>,
    completed_at: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ChatArtifact {
    name: String,
    content_type: String,
    size: u64,
    url: String,
}

/// Returns the artifacts of a job with their URLs.
pub(crate) fn artifacts(job: &Job) -> Vec<ChatArtifact> {
    let to_wire = |artifact: &longhaul::job::Artifact| ChatArtifact {
        url: format!("/jobs/{}/artifacts/{}", job.id, encoding::path_segment(&artifact.name)),
        name: artifact.name.clone(),
        content_type: artifact.content_type.clone(),
        size: artifact.size,
    };
    job.artifacts.iter().map(to_wire).collect()
}

/// Returns the requested model of a job that was submitted to the chat API.
pub(crate) fn model(job: &Job) -> Option<&str> {
    job.labels.get(MODEL_LABEL).map(String::as_str)
}

/// Returns the response body in a chat job's result.
pub(crate) fn chat_result(result: &RawValue) -> Option<Box<RawValue>> {
    let answer: ChatResult = serde_json::from_str(result.get()).ok()?;
    RawValue::from_string(answer.body.as_str().to_owned()).ok()
}

/// Responds with the current state of a job.
pub(crate) async fn show(engine: &Engine, record: Record) -> Result<Response> {
    let job = &record.job;
    let answer: Option<ChatResult> = record.result.as_ref().and_then(|result| result.to().ok());
    let response = ChatJob {
        job_id: job.id.to_string(),
        state: ChatState::of(job.status, job.phase.as_deref()).as_str(),
        result: answer.as_ref().map(|answer| to_wire::raw(&answer.body)).transpose()?,
        error: job.error.as_ref().map(|error| error.message.clone()),
        artifacts: artifacts(job),
        attempt: job.attempt,
        model: match model(job) {
            Some(model) => Some(model.to_owned()),
            None => model_of_input(engine, job).await?,
        },
        target: answer.map(|answer| answer.target),
        created_at: job.created_at.to_string(),
        started_at: job.started_at.map(|at| at.to_string()),
        completed_at: job.completed_at.map(|at| at.to_string()),
    };
    Ok(Json(response).into_response())
}

/// Returns the model of a job that was submitted to another API.
async fn model_of_input(engine: &Engine, job: &Job) -> Result<Option<String>, StoreError> {
    let call: Option<ChatCall> = engine.input(job.id).await?.to().ok();
    Ok(call.and_then(|call| call.model()))
}
