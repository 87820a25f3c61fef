//! Event stream of a job, across lost connections and server restarts.

use std::time::Duration;

use futures_util::{Stream, stream};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, Response, StatusCode};
use tokio::time::{Instant, sleep_until, timeout};

use super::retry::Reconnection;
use super::sse::Parser;
use super::{Client, ClientError, Result};
use crate::wire::Job;

/// Longest silence: the server sends a comment every 15 s, and three may be missed.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Default time without a connection after which the stream fails.
const GIVE_UP_AFTER: Duration = Duration::from_mins(5);

/// Item of [`Events`].
#[derive(Debug)]
pub enum Update {
    /// New state of the job; the first one is the current state.
    Job(Box<Job>),
    /// The connection is lost. The next call waits and reconnects.
    Reconnecting {
        /// Error of the connection.
        error: ClientError,
        /// Delay before the next attempt.
        wait: Duration,
    },
}

/// Events of one job, from its current to its terminal state.
///
/// Every transition is returned once and in order: after a lost connection it reconnects with the
/// last received version, and the server continues from there.
#[derive(Debug)]
pub struct Events {
    client: Client,
    id: String,
    last_version: Option<u64>,
    connection: Option<Connection>,
    reconnection: Reconnection,
    reconnect_at: Option<Instant>,
    ended: bool,
}

#[derive(Debug)]
struct Connection {
    response: Response,
    parser: Parser,
}

impl Events {
    pub(super) fn new(client: Client, id: &str) -> Self {
        Self {
            client,
            id: id.to_owned(),
            last_version: None,
            connection: None,
            reconnection: Reconnection::new(GIVE_UP_AFTER),
            reconnect_at: None,
            ended: false,
        }
    }

    /// Starts after a known version.
    #[must_use]
    pub fn after(mut self, version: u64) -> Self {
        self.last_version = Some(version);
        self
    }

    /// Sets the time without a connection after which the stream fails. Defaults to five minutes.
    #[must_use]
    pub fn give_up_after(mut self, give_up_after: Duration) -> Self {
        self.reconnection.give_up_after = give_up_after;
        self
    }

    /// Returns the next update; `None` after the terminal one or after an error.
    ///
    /// Cancel safe: dropping the future loses no event.
    pub async fn next(&mut self) -> Result<Option<Update>> {
        if self.ended {
            return Ok(None);
        }
        match self.advance().await {
            Ok(Some(job)) => {
                self.last_version = Some(job.version);
                self.ended = job.status.is_terminal();
                Ok(Some(Update::Job(Box::new(job))))
            }
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            Err(error) => self.connection_lost(error).map(Some),
        }
    }

    /// Returns the states of the job as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Job>> + Send {
        stream::try_unfold(self, |mut events| async move {
            while let Some(update) = events.next().await? {
                match update {
                    Update::Job(job) => return Ok(Some((*job, events))),
                    Update::Reconnecting { .. } => {}
                }
            }
            Ok(None)
        })
    }

    /// Returns the reconnection update, or the error if the stream fails.
    fn connection_lost(&mut self, error: ClientError) -> Result<Update> {
        self.connection = None;
        let Some(wait) = self.reconnection.delay_after(&error) else {
            self.ended = true;
            return Err(error);
        };
        self.reconnect_at = Some(Instant::now() + wait);
        Ok(Update::Reconnecting { error, wait })
    }

    async fn advance(&mut self) -> Result<Option<Job>> {
        loop {
            let Some(connection) = &mut self.connection else {
                match self.connect().await? {
                    Some(connection) => self.connection = Some(connection),
                    None => return Ok(None),
                }
                continue;
            };
            while let Some(frame) = connection.parser.pop() {
                if frame.event != "job" {
                    continue;
                }
                let job: Job = self.client.parse(frame.data.as_bytes())?;
                // A reconnection may repeat versions.
                if self.last_version.is_none_or(|last| job.version > last) {
                    return Ok(Some(job));
                }
            }
            connection.read(&self.client).await?;
            self.reconnection.succeeded();
            if let Some(retry) = connection.parser.take_retry() {
                self.reconnection.backoff.set_first(retry);
            }
        }
    }

    /// Opens the stream after the last received version; `None` if there are no more events.
    async fn connect(&mut self) -> Result<Option<Connection>> {
        if let Some(at) = self.reconnect_at {
            sleep_until(at).await;
            self.reconnect_at = None;
        }
        let url = self.client.job_url(&self.id, Some("events"))?;
        let mut request = self.client.request(Method::GET, url).header(ACCEPT, "text/event-stream");
        if let Some(version) = self.last_version {
            request = request.header("last-event-id", version.to_string());
        }
        let response = match timeout(SILENCE_MAX, request.send()).await {
            Ok(sent) => sent.map_err(|error| self.client.connection_failed(&error))?,
            Err(_) => return Err(silent(&self.client)),
        };
        let response = self.client.accepted(response).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        let content_type = response.headers().get(CONTENT_TYPE);
        if !content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream")) {
            let reason = format!("{} is not an event stream", response.url().path());
            return Err(self.client.bad_response(reason));
        }
        Ok(Some(Connection { response, parser: Parser::default() }))
    }
}

impl Connection {
    async fn read(&mut self, client: &Client) -> Result<()> {
        match timeout(SILENCE_MAX, self.response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                self.parser.push(&chunk).map_err(|error| client.bad_response(error.to_string()))
            }
            Ok(Ok(None)) => Err(client.unreachable("the server closed the connection")),
            Ok(Err(error)) => Err(client.connection_failed(&error)),
            Err(_) => Err(silent(client)),
        }
    }
}

fn silent(client: &Client) -> ClientError {
    client.unreachable(format!("no data for {} s", SILENCE_MAX.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing::{Server, event, event_stream, problem};
    use crate::wire::Status;

    async fn versions(server: &Server) -> Vec<(u64, Status)> {
        let mut events = server.client().events("01KA");
        let mut seen = Vec::new();
        while let Some(update) = events.next().await.unwrap() {
            if let Update::Job(job) = update {
                seen.push((job.version, job.status));
            }
        }
        seen
    }

    #[tokio::test]
    async fn events_survive_restarts_without_gap_or_repeat() {
        let server = Server::start(vec![
            event_stream(&["retry: 1\n\n", &event(1, "pending"), &event(2, "running")]),
            // Cut in the middle of an event, which must be sent again.
            event_stream(&["event: job\nid: 3\ndata: {\"jobId\""]),
            // A gateway without a backend.
            "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n".to_owned(),
            String::new(),
            event_stream(&[&event(2, "running"), &event(3, "running"), &event(4, "completed")]),
        ])
        .await;
        let seen = versions(&server).await;
        assert_eq!(seen.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(seen.last().map(|(_, status)| *status), Some(Status::Completed));
        let asked: Vec<_> =
            server.requests().iter().map(|head| head.contains("last-event-id: 2\r\n")).collect();
        assert_eq!(asked, [false, true, true, true, true]);
    }

    #[tokio::test]
    async fn events_end_after_the_terminal_event() {
        let server = Server::start(vec![event_stream(&[&event(9, "failed")])]).await;
        assert_eq!(versions(&server).await, [(9, Status::Failed)]);
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn events_end_with_no_content() {
        let gone = "HTTP/1.1 204 No Content\r\n\r\n".to_owned();
        let server = Server::start(vec![gone]).await;
        let mut events = server.client().events("01KA").after(9);
        assert!(events.next().await.unwrap().is_none());
        assert!(server.requests()[0].contains("last-event-id: 9\r\n"));
    }

    #[tokio::test]
    async fn rejected_event_stream_is_not_retried() {
        let server = Server::start(vec![problem(404, "job-not-found")]).await;
        let mut events = server.client().events("01KA");
        let error = events.next().await.unwrap_err();
        assert!(matches!(&error, ClientError::Refused(p) if p.code == "job-not-found"), "{error}");
        assert!(events.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn events_fail_after_a_long_outage() {
        let client = Client::new("http://127.0.0.1:1", None).unwrap();
        let mut events = client.events("01KA").give_up_after(Duration::ZERO);
        assert!(matches!(events.next().await, Err(ClientError::Unreachable { .. })));
    }
}
