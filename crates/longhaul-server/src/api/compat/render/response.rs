//! A picture's job as callers of `GET /jobs/{id}` see it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use longhaul::job::Record;
use longhaul::{Job, Status};
use serde::Serialize;

/// In front of a short link, in the key that its job is submitted under.
const KEY_PREFIX: &str = "render/";

/// The job.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
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

/// Where a picture is.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Link {
    shortlink: Option<String>,
    url: Option<String>,
}

impl Link {
    pub(crate) fn to(shortlink: &str) -> Self {
        Self { shortlink: Some(shortlink.to_owned()), url: Some(url(shortlink)) }
    }

    /// Of a job that came by another way than this door, or has no picture: none.
    fn of(job: &Job) -> Self {
        let key = job.idempotency_key.as_deref().filter(|_| job.status == Status::Completed);
        let shortlink = key.and_then(|key| key.strip_prefix(KEY_PREFIX));
        shortlink.map_or(Self { shortlink: None, url: None }, Self::to)
    }
}

/// The key that a short link's job is submitted under.
pub(crate) fn key(shortlink: &str) -> String {
    format!("{KEY_PREFIX}{shortlink}")
}

fn url(shortlink: &str) -> String {
    format!("/d/{shortlink}")
}

/// A status in the door's words.
pub(crate) fn status(status: Status) -> &'static str {
    match status {
        Status::Pending | Status::Waiting => "pending",
        Status::Running => "rendering",
        Status::Completed => "completed",
        Status::Failed | Status::Cancelled => "failed",
    }
}

/// Why there is no picture, of a job that has ended without one.
pub(crate) fn why_not(job: &Job) -> Option<String> {
    match (&job.error, job.status) {
        (_, Status::Cancelled) => Some("the job was cancelled".to_owned()),
        (Some(error), Status::Failed) => Some(error.message.clone()),
        (None, Status::Failed) => Some("no reason was recorded".to_owned()),
        (_, Status::Pending | Status::Waiting | Status::Running | Status::Completed) => None,
    }
}

/// The job as it stands.
pub(crate) fn show(record: &Record) -> Response {
    let job = &record.job;
    let link = Link::of(job);
    let shown = Shown {
        job_id: job.id.to_string(),
        status: status(job.status),
        created_at: job.created_at.to_string(),
        started_at: job.started_at.map(|at| at.to_string()),
        completed_at: job.completed_at.map(|at| at.to_string()),
        result: Some(link.clone()).filter(|link| link.url.is_some()),
        link,
        error: why_not(job),
    };
    Json(shown).into_response()
}
