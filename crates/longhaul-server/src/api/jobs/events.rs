//! Watching one job: server-sent events.
//!
//! The stream is pulled, not pushed: nothing is read from the store before the connection has
//! taken what came before it. A slow reader therefore costs one job's owed transitions and no
//! buffer that grows; one that stops reading is cut off by the connection's write timeout, and
//! goes on where it was with `Last-Event-ID`.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use longhaul::job::Record;
use longhaul::{Engine, JobId, Timestamp, Watcher};

use crate::api::AppState;
use crate::api::http::caller::{Authorization, Caller};
use crate::api::http::openapi::{EventStream, JobAskedProblems, PathOfJob};
use crate::api::http::params::{JobPath, bad};
use crate::problem::Problem;
use crate::to_wire;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Asks nginx, which would hold events back, not to.
pub(crate) const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const KEEP_ALIVE: &str = ": keep-alive\n\n";
/// How often it is asked whether the caller may still watch. What is remembered of keys and tenants
/// answers, so that it costs a hash and two looks.
const JUDGED_EVERY: Duration = Duration::from_secs(2);

/// Watch a job.
///
/// First its present state, or with `Last-Event-ID` everything after that version; then every
/// transition once and in order. The stream ends after the last one; asking again from there
/// answers 204, which tells a browser not to come back. It also ends within seconds once the caller's key or
/// token ends, or its subscription: asking again then says which.
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
    let authorization = caller.authorization(&headers);
    watch(state, caller, id, &headers, authorization).await
}

/// A job's events, for as long as whoever has this standing may be told of them.
pub(crate) async fn watch(
    state: AppState,
    caller: Caller,
    id: JobId,
    headers: &HeaderMap,
    authorization: Authorization,
) -> Result<Response, Problem> {
    let last_seen = last_seen(headers)?;
    let now = caller.engine.job(id).await?.job;
    if now.status.is_terminal() && last_seen.is_some_and(|seen| seen >= now.version) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    // A version that the job has not reached yet was never sent: begin with the present state.
    let since = last_seen.filter(|seen| *seen <= now.version);
    let watcher = caller.engine.watch(id, since);
    let retry = format!("retry: {}\n\n", state.settings.reconnect.as_millis());
    let now = state.clock.now();
    let (judged_at, said_at) = (now, now);
    let (engine, first) = (caller.engine, Some(retry));
    let events = Events { engine, state, watcher, authorization, first, judged_at, said_at };
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
    authorization: Authorization,
    /// What is sent before anything else.
    first: Option<String>,
    /// When it was last asked whether the caller may still watch.
    judged_at: Timestamp,
    /// When something was last sent.
    said_at: Timestamp,
}

impl Events {
    /// The next piece of the stream. `None` ends it: after the job's last transition, at the stop, when
    /// the store fails, or when the caller may not watch any more. Callers come back with `Last-Event-ID`
    /// and miss nothing, or are told why not.
    async fn next(mut self) -> Option<(Result<String, Infallible>, Self)> {
        let piece = match self.first.take() {
            Some(first) => first,
            None => self.piece().await?,
        };
        self.said_at = self.state.clock.now();
        Some((Ok(piece), self))
    }

    async fn piece(&mut self) -> Option<String> {
        let (stop, clock) = (&self.state.stop, &self.state.clock);
        let alive_at = self.said_at.after(self.state.settings.keep_alive);
        // One wait, however often the caller is judged meanwhile: a new one would ask the store anew.
        let mut next = std::pin::pin!(self.watcher.next());
        loop {
            let judge_at = self.judged_at.after(JUDGED_EVERY);
            let owed = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                owed = &mut next => Some(owed?),
                () = clock.sleep_until(alive_at.min(judge_at)) => None,
            };
            if clock.now() >= judge_at {
                if self.authorization.recheck().await.is_err() {
                    return None;
                }
                self.judged_at = clock.now();
            }
            match owed {
                Some(Ok(record)) => return event(&self.engine, &record),
                Some(Err(error)) => {
                    tracing::debug!(%error, "an event stream ends early");
                    return None;
                }
                None if clock.now() >= alive_at => return Some(KEEP_ALIVE.to_owned()),
                None => {}
            }
        }
    }
}

/// One event. Results are kept as they were written, line breaks between tokens included, which
/// would end the line here; inside of strings JSON has none.
fn event(engine: &Engine, record: &Record) -> Option<String> {
    let job = to_wire::job(engine, record).ok()?;
    let data = serde_json::to_string(&job).ok()?.replace(['\n', '\r'], " ");
    Some(format!("event: job\nid: {}\ndata: {data}\n\n", job.version))
}
