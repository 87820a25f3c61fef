//! Watching a job over server-sent events, and judging what was seen.
//!
//! Unlike the client library, this watcher repairs nothing: what the server repeats is seen twice.

use longhaul_client::wire::{Job, Status};
use tokio::io::AsyncBufReadExt;

use crate::harness::Installation;
use crate::harness::raw_http;

/// One watch of one job, across broken connections and restarts.
pub(crate) struct Watch<'a> {
    install: &'a Installation,
    ready: tokio::sync::watch::Receiver<u64>,
    call: String,
    last_event_id: Option<u64>,
    stream: Option<raw_http::RawStream>,
    ended: bool,
}

impl<'a> Watch<'a> {
    /// From the present state on, or from the version after `last_event_id`.
    pub(crate) fn new(install: &'a Installation, id: &str, last_event_id: Option<u64>) -> Self {
        let call = format!("GET /v1/jobs/{id}/events");
        Self { install, ready: install.ready(), call, last_event_id, stream: None, ended: false }
    }

    /// Makes the watcher connect to another server once its connection has ended.
    pub(crate) fn reconnect_to(&mut self, install: &'a Installation) {
        (self.install, self.ready) = (install, install.ready());
    }

    /// Returns the next event, or `None` once the stream has ended after the terminal one.
    pub(crate) async fn next(&mut self) -> Option<Job> {
        loop {
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None if self.ended => return None,
                None => self.connect().await,
            };
            let Some(job) = event(&mut stream).await else { continue };
            self.stream = Some(stream);
            assert!(!self.ended, "an event after the terminal one: {job:?}");
            self.ended = job.status.is_terminal();
            self.last_event_id = Some(job.version);
            return Some(job);
        }
    }

    /// All that is left of it.
    pub(crate) async fn rest(mut self) -> Vec<Job> {
        let mut seen = Vec::new();
        while let Some(job) = self.next().await {
            seen.push(job);
        }
        seen
    }

    async fn connect(&mut self) -> raw_http::RawStream {
        let last = self.last_event_id.map(|version| version.to_string());
        let fields: Vec<_> = last.iter().map(|last| ("last-event-id", last.as_str())).collect();
        loop {
            self.ready.mark_unchanged();
            if let Ok(stream) =
                raw_http::open(self.install.address(), &self.call, &fields, "").await
            {
                assert_eq!(stream.status, 200, "{}", stream.head);
                return stream;
            }
            // No server is running; the next one will be started.
            self.ready.changed().await.unwrap();
        }
    }
}

/// Returns the next complete event, or `None` once the connection has ended.
async fn event(stream: &mut raw_http::RawStream) -> Option<Job> {
    let (mut id, mut data) = (None, None);
    loop {
        let mut line = String::new();
        let read = stream.body.read_line(&mut line).await;
        if read.is_err() || !line.ends_with('\n') {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("id", text)) => id = Some(text.parse::<u64>().unwrap()),
            Some(("data", text)) => data = Some(serde_json::from_str::<Job>(text).unwrap()),
            Some(_) => {}
            None => {
                if let (Some(id), Some(job)) = (id.take(), data.take()) {
                    assert_eq!(id, job.version);
                    return Some(job);
                }
            }
        }
    }
}

/// Asserts that a job's whole history, as the server has it now, is one that a job may have, and
/// returns it.
pub(crate) async fn legal_history(install: &Installation, id: &str) -> Vec<Job> {
    let history = Watch::new(install, id, Some(0)).rest().await;
    let first = &history[0];
    assert_eq!((first.version, first.status, first.attempt), (1, Status::Pending, 0), "{id}");
    for pair in history.windows(2) {
        let (from, to) = (&pair[0], &pair[1]);
        let told = format!("{id}: {} {} → {} {}", from.version, from.status, to.version, to.status);
        assert!(from.version < to.version, "{told}");
        assert!(may_follow(from, to), "{told}");
        assert!(to.attempt <= to.max_attempts, "{told}");
    }
    let last = history.last().unwrap();
    assert_eq!(last.result.is_some(), last.status == Status::Completed, "{last:?}");
    let again = last.version.to_string();
    let call = format!("GET /v1/jobs/{id}/events");
    let response =
        raw_http::send(install.address(), &call, &[("last-event-id", &again)], "").await.unwrap();
    assert_eq!(response.status, 204, "there is nothing after the terminal event");
    history
}

fn may_follow(from: &Job, to: &Job) -> bool {
    use Status::{Cancelled, Completed, Failed, Pending, Running, Waiting};
    match (from.status, to.status) {
        // A further attempt, or the same one after its job was returned to the queue.
        (Pending, Running) => to.attempt == from.attempt + 1 || to.attempt == from.attempt.max(1),
        (Pending | Waiting, Cancelled) | (Waiting, Pending) | (Running, _) => {
            to.attempt == from.attempt
        }
        (Pending | Waiting | Completed | Failed | Cancelled, _) => false,
    }
}

/// Asserts that a watcher saw every transition once and in order. Progress may come in between: it
/// has a version and is no transition.
pub(crate) fn saw_all(seen: &[Job], history: &[Job]) {
    let versions: Vec<u64> = seen.iter().map(|job| job.version).collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    for owed in history.iter().filter(|job| job.version >= versions[0]) {
        let sent = seen.iter().find(|job| job.version == owed.version);
        let sent = sent.unwrap_or_else(|| panic!("{} is missing in {versions:?}", owed.version));
        assert_eq!((sent.status, sent.attempt), (owed.status, owed.attempt), "{}", owed.version);
    }
    assert_eq!(seen.last(), history.last());
}
