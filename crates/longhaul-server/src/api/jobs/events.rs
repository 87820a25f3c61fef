//! Watching one job with server-sent events.
//!
//! The stream is pulled: the store is read only when the connection has taken the previous event. A slow
//! client therefore needs no growing buffer. A client that stops reading is disconnected by the write timeout
//! and continues with `Last-Event-ID`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use longhaul::job::Record;
use longhaul::store::StoreError;
use longhaul::{Engine, JobId, Timestamp, Watcher};

use crate::api::AppState;
use crate::api::http::caller::{Authorization, Caller};
use crate::api::http::openapi::{EventStream, JobQueryProblems, PathOfJob};
use crate::api::http::params::{JobPath, bad};
use crate::api::http::respond;
use crate::api::http::stream_authorization::StreamAuthorization;
use crate::problem::Result;
use crate::to_wire;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");
/// Number of moments in a keep-alive interval at which comments are sent, so that one wake-up of a thread serves many
/// streams.
const KEEP_ALIVE_MOMENTS: u32 = 16;

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
    let authorization = state.streams.open(authorization, &state.clock, &state.stop);
    let sent_at = state.clock.now();
    let (engine, first) = (caller.engine, Some(Bytes::from(retry)));
    let events = Events { engine, state, watcher, authorization, first, sent_at };
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
    authorization: Arc<StreamAuthorization>,
    /// Sent before all events.
    first: Option<Bytes>,
    sent_at: Timestamp,
}

impl Events {
    /// Returns the next chunk of the stream. `None` ends it: after the job's last transition, at shutdown, when the
    /// store fails, or when the caller lost its authorization. Clients reconnect with `Last-Event-ID` and miss no
    /// event.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let chunk = match self.first.take() {
            Some(first) => first,
            None => self.next_chunk().await?,
        };
        self.sent_at = self.state.clock.now();
        Some((Ok(chunk), self))
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        let keep_alive_at = keep_alive_at(self.sent_at, self.state.settings.keep_alive);
        let chunk = tokio::select! {
            biased;
            () = self.authorization.ended() => return None,
            record = self.watcher.next() => event(&self.engine, record?)?,
            () = self.state.clock.sleep_until(keep_alive_at) => KEEP_ALIVE,
        };
        self.authorization.is_valid().await.then_some(chunk)
    }
}

/// Returns the last of the keep-alive moments within the interval after a chunk was sent.
fn keep_alive_at(sent_at: Timestamp, interval: Duration) -> Timestamp {
    let latest = sent_at.after(interval);
    let step = i64::try_from((interval / KEEP_ALIVE_MOMENTS).as_millis()).unwrap_or(0);
    Timestamp::from_millis(latest.as_millis() - latest.as_millis().rem_euclid(step.max(1)))
}

/// Formats one event. Replaces line breaks, which results may have between JSON tokens and which would end the
/// `data` line; inside of strings JSON has none.
fn event(engine: &Engine, record: Result<Record, StoreError>) -> Option<Bytes> {
    let record = match record {
        Ok(record) => record,
        Err(error) => {
            tracing::debug!(%error, "event stream ended by a store error");
            return None;
        }
    };
    let job = to_wire::job(engine, &record).ok()?;
    let data = serde_json::to_string(&job).ok()?.replace(['\n', '\r'], " ");
    Some(format!("event: job\nid: {}\ndata: {data}\n\n", job.version).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keep_alives_of_many_streams_share_few_moments_and_none_is_late() {
        let interval = Duration::from_secs(15);
        let sent_at = (0..15_000).map(|millis| Timestamp::from_millis(1_800_000_000_123 + millis));
        let moments: BTreeSet<_> = sent_at
            .map(|sent_at| {
                let at = keep_alive_at(sent_at, interval);
                assert!(at > sent_at.after(interval * 14 / 15) && at <= sent_at.after(interval));
                at
            })
            .collect();
        assert!(moments.len() <= 17, "{moments:?}");
    }
}
