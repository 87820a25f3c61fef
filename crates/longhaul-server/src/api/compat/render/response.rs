//! Render jobs in the format of `GET /jobs/{id}`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use longhaul::job::Record;
use longhaul::{Job, Status};
use serde::Serialize;

use super::RenderApi;
use crate::api::AppState;
use crate::problem::Result;

/// Prefix of a short link in its job's idempotency key.
const KEY_PREFIX: &str = "render/";

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RenderJob {
    job_id: String,
    status: &'static str,
    created_at: String,
    started_at: Option<String>,
    completed_at: Option<String>,
    #[serde(flatten)]
    link: Link,
    error: Option<String>,
    result: Option<Link>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Link {
    shortlink: Option<String>,
    url: Option<String>,
}

impl RenderApi {
    pub(super) fn link(&self, shortlink: &str) -> Link {
        let url = format!("{}/d/{shortlink}", self.base_url);
        Link { shortlink: Some(shortlink.to_owned()), url: Some(url) }
    }

    /// Empty for an unfinished job, or one that was submitted to another API.
    fn link_of(&self, job: &Job) -> Link {
        let key = job.idempotency_key.as_deref().filter(|_| job.status == Status::Completed);
        let shortlink = key.and_then(|key| key.strip_prefix(KEY_PREFIX));
        shortlink.map_or(Link { shortlink: None, url: None }, |shortlink| self.link(shortlink))
    }
}

/// Returns the idempotency key of a short link's job.
pub(crate) fn key(shortlink: &str) -> String {
    format!("{KEY_PREFIX}{shortlink}")
}

/// Returns a status in the API's words.
pub(crate) fn status(status: Status) -> &'static str {
    match status {
        Status::Pending | Status::Waiting => "pending",
        Status::Running => "rendering",
        Status::Completed => "completed",
        Status::Failed | Status::Cancelled => "failed",
    }
}

/// Returns the error message of a job that finished without an image.
pub(crate) fn error_message(job: &Job) -> Option<String> {
    match (&job.error, job.status) {
        (_, Status::Cancelled) => Some("the job was cancelled".to_owned()),
        (Some(error), Status::Failed) => Some(error.message.clone()),
        (None, Status::Failed) => Some("no reason was recorded".to_owned()),
        (_, Status::Pending | Status::Waiting | Status::Running | Status::Completed) => None,
    }
}

/// Responds with the current state of a job.
pub(crate) fn show(state: &AppState, record: &Record) -> Result<Response> {
    let job = &record.job;
    let link = state.render()?.link_of(job);
    let response = RenderJob {
        job_id: job.id.to_string(),
        status: status(job.status),
        created_at: job.created_at.to_string(),
        started_at: job.started_at.map(|at| at.to_string()),
        completed_at: job.completed_at.map(|at| at.to_string()),
        result: Some(link.clone()).filter(|link| link.url.is_some()),
        link,
        error: error_message(job),
    };
    Ok(Json(response).into_response())
}
