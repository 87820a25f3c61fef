//! Watching one job with server-sent events.
//!
//! The stream is pulled: the store is read only when the connection has taken the previous event. A slow
//! client therefore needs no growing buffer. A client that stops reading is disconnected by the write timeout
//! and continues with `Last-Event-ID`.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use longhaul::job::Record;
use longhaul::{Engine, JobId, Timestamp, Watcher};

use crate::api::AppState;
use crate::api::http::caller::{Authorization, Caller};
use crate::api::http::openapi::{EventStream, JobQueryProblems, PathOfJob};
use crate::api::http::params::{JobPath, bad};
use crate::api::http::respond;
use crate::problem::Result;
use crate::to_wire;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const KEEP_ALIVE: &str = ": keep-alive\n\n";
/// Interval of authorization checks. They hit the cache of keys and tenants, so that each costs a hash and two
/// lookups. But each wakes the connection, which is most of the cost of an idle stream.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Watch a job.
///
/// Sends the current state, or with `Last-Event-ID` all transitions after that version, then every transition once
/// and in order. The stream ends after the last transition; reconnecting from there gets 204, which stops browsers
/// from reconnecting. It also ends within seconds when the caller's key, token or subscription ends; reconnecting
/// then returns the reason.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/events", operation_id = "watchJob", tag = "jobs",
    params(
        PathOfJob,
        ("Last-Event-ID" = Option<u64>, Header, description = "Last version that the client has received."),
    ),
    responses(EventStream, JobQueryProblems),
)]
pub(super) async fn watch_job(
    State(state): State<AppState>,
    caller: Caller,
    JobPath(id): JobPath,
    headers: HeaderMap,
) -> Result<Response> {
    let authorization = caller.authorization(&headers);
    watch(state, caller, id, &headers, authorization).await
}

/// Streams a job's events as long as the caller is authorized.
pub(crate) async fn watch(
    state: AppState,
    caller: Caller,
    id: JobId,
    headers: &HeaderMap,
    authorization: Authorization,
) -> Result<Response> {
    let last_seen = last_seen(headers)?;
    let now = caller.engine.job(id).await?.job;
    if now.status.is_terminal() && last_seen.is_some_and(|seen| seen >= now.version) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    // A version that the job has not reached was never sent: start with the current state.
    let since = last_seen.filter(|seen| *seen <= now.version);
    let watcher = caller.engine.watch(id, since);
    let retry = format!("retry: {}\n\n", state.settings.reconnect.as_millis());
    let now = state.clock.now();
    let (checked_at, sent_at) = (now, now);
    let (engine, first) = (caller.engine, Some(retry));
    let events = Events { engine, state, watcher, authorization, first, checked_at, sent_at };
    let body = Body::from_stream(stream::unfold(events, Events::next));
    Ok(respond::stream("text/event-stream", body))
}

fn last_seen(headers: &HeaderMap) -> Result<Option<u64>> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let version = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    version.map(Some).ok_or_else(|| bad("Last-Event-ID must be the id of an event of this job"))
}

struct Events {
    engine: Engine,
    state: AppState,
    watcher: Watcher,
    authorization: Authorization,
    /// Sent before all events.
    first: Option<String>,
    /// Last authorization check.
    checked_at: Timestamp,
    sent_at: Timestamp,
}

impl Events {
    /// Returns the next chunk of the stream. `None` ends it: after the job's last transition, at shutdown, when the
    /// store fails, or when the caller lost its authorization. Clients reconnect with `Last-Event-ID` and miss no
    /// event.
    async fn next(mut self) -> Option<(Result<String, Infallible>, Self)> {
        let chunk = match self.first.take() {
            Some(first) => first,
            None => self.next_chunk().await?,
        };
        self.sent_at = self.state.clock.now();
        Some((Ok(chunk), self))
    }

    async fn next_chunk(&mut self) -> Option<String> {
        let (stop, clock) = (&self.state.stop, &self.state.clock);
        let keep_alive_at = self.sent_at.after(self.state.settings.keep_alive);
        // Kept across authorization checks, because a new wait would query the store again.
        let mut next = std::pin::pin!(self.watcher.next());
        loop {
            let can_end = self.authorization.can_end();
            let check_at = can_end.then(|| self.checked_at.after(RECHECK_INTERVAL));
            let wake_at = check_at.map_or(keep_alive_at, |check_at| keep_alive_at.min(check_at));
            let event_record = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                record = &mut next => Some(record?),
                () = clock.sleep_until(wake_at) => None,
            };
            if check_at.is_some_and(|check_at| clock.now() >= check_at) {
                if self.authorization.recheck().await.is_err() {
                    return None;
                }
                self.checked_at = clock.now();
            }
            match event_record {
                Some(Ok(record)) => return event(&self.engine, &record),
                Some(Err(error)) => {
                    tracing::debug!(%error, "event stream ended by a store error");
                    return None;
                }
                None if clock.now() >= keep_alive_at => return Some(KEEP_ALIVE.to_owned()),
                None => {}
            }
        }
    }
}

/// Formats one event. Replaces line breaks, which results may have between JSON tokens and which would end the
/// `data` line; inside of strings JSON has none.
fn event(engine: &Engine, record: &Record) -> Option<String> {
    let job = to_wire::job(engine, record).ok()?;
    let data = serde_json::to_string(&job).ok()?.replace(['\n', '\r'], " ");
    Some(format!("event: job\nid: {}\ndata: {data}\n\n", job.version))
}
