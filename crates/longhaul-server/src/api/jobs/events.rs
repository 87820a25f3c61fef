//! Watching one job: server-sent events.
//!
//! The stream is pulled, not pushed: nothing is read from the store before the connection has
//! taken what came before it. A slow reader therefore costs one job's owed transitions and no
//! buffer that grows; one that stops reading is cut off by the connection's write timeout, and
//! goes on where it was with `Last-Event-ID`.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use longhaul::job::Record;
use longhaul::{Engine, Watcher};

use crate::api::caller::Caller;
use crate::api::openapi::{EventStream, JobAskedProblems, PathOfJob};
use crate::api::params::{JobPath, bad};
use crate::api::{AppState, answer};
use crate::problem::Problem;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Asks nginx, which would hold events back, not to.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// Watch a job.
///
/// First its present state, or with `Last-Event-ID` everything after that version; then every
/// transition once and in order. The stream ends after the last one; asking again from there
/// answers 204, which tells a browser not to come back.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/events", operation_id = "watchJob", tag = "jobs",
    params(
        PathOfJob,
        ("Last-Event-ID" = Option<u64>, Header, description = "The last version that the caller has seen."),
    ),
    responses(EventStream, JobAskedProblems),
)]
pub(super) async fn watch_job(
    State(state): State<AppState>,
    caller: Caller,
    JobPath(id): JobPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last_seen = last_seen(&headers)?;
    let now = caller.engine.job(id).await?.job;
    if now.status.is_terminal() && last_seen.is_some_and(|seen| seen >= now.version) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    // A version that the job has not reached yet was never sent: begin with the present state.
    let since = last_seen.filter(|seen| *seen <= now.version);
    let watcher = caller.engine.watch(id, since);
    let retry = format!("retry: {}\n\n", state.settings.reconnect.as_millis());
    let events = Events { engine: caller.engine, state, watcher, first: Some(retry) };
    let body = Body::from_stream(stream::unfold(events, Events::next));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    Ok((headers, body).into_response())
}

fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let version = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    version.map(Some).ok_or_else(|| bad("Last-Event-ID must be the id of an event of this job"))
}

struct Events {
    engine: Engine,
    state: AppState,
    watcher: Watcher,
    /// What is sent before anything else.
    first: Option<String>,
}

impl Events {
    /// The next piece of the stream. It ends after the terminal event, when the server stops and
    /// when the store fails: callers come back with `Last-Event-ID` and miss nothing.
    async fn next(mut self) -> Option<(Result<String, Infallible>, Self)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        let piece = tokio::select! {
            biased;
            () = self.state.stop.cancelled() => return None,
            owed = self.watcher.next() => match owed? {
                Ok(record) => event(&self.engine, &record)?,
                Err(error) => {
                    tracing::debug!(%error, "an event stream ends early");
                    return None;
                }
            },
            () = self.state.clock.sleep(self.state.settings.keep_alive) => KEEP_ALIVE.to_owned(),
        };
        Some((Ok(piece), self))
    }
}

/// One event. Results are kept as they were written, line breaks between tokens included, which
/// would end the line here; inside of strings JSON has none.
fn event(engine: &Engine, record: &Record) -> Option<String> {
    let job = answer::job(engine, record).ok()?;
    let data = serde_json::to_string(&job).ok()?.replace(['\n', '\r'], " ");
    Some(format!("event: job\nid: {}\ndata: {data}\n\n", job.version))
}
