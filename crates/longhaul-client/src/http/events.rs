//! Watching a job to its end, across broken connections and restarted servers.

use std::time::Duration;

use futures_util::{Stream, stream};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, Response, StatusCode};
use tokio::time::{Instant, sleep_until, timeout};

use super::retry::{Backoff, chance};
use super::sse::Parser;
use super::{Client, ClientError};
use crate::wire::Job;

/// The first wait before reconnecting, unless the server names one.
const FIRST_RECONNECT: Duration = Duration::from_millis(500);
const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// The server writes a comment every 15 s; after three missed ones nobody is there.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// How long a server may be away before a watcher gives up.
const PATIENCE: Duration = Duration::from_mins(5);

/// What a watcher learns.
#[derive(Debug)]
pub enum Update {
    /// The job changed, or this is how it stood at first.
    Job(Box<Job>),
    /// The connection is lost. The next call waits, then goes on where it stopped.
    Reconnecting {
        /// What went wrong.
        error: ClientError,
        /// How long until the next try.
        wait: Duration,
    },
}

/// The events of one job, from its current state to its terminal one.
///
/// Every transition comes once and in order, also when the connection breaks: it reconnects with
/// the last version seen, and the server goes on from there.
#[derive(Debug)]
pub struct Events {
    client: Client,
    id: String,
    last_version: Option<u64>,
    connection: Option<Connection>,
    backoff: Backoff,
    patience: Duration,
    failing_since: Option<Instant>,
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
            backoff: Backoff::new(FIRST_RECONNECT, RECONNECT_MAX),
            patience: PATIENCE,
            failing_since: None,
            reconnect_at: None,
            ended: false,
        }
    }

    /// Goes on after a version that was already seen.
    #[must_use]
    pub fn after(mut self, version: u64) -> Self {
        self.last_version = Some(version);
        self
    }

    /// How long the server may be away before the watcher gives up; five minutes unless set.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The next update; `None` after the terminal one. After an error there is nothing more.
    ///
    /// Dropping the future loses no event, so it may stand in a `select!`.
    pub async fn next(&mut self) -> Result<Option<Update>, ClientError> {
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
            Err(error) => self.lost(error).map(Some),
        }
    }

    /// The jobs alone, as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Job, ClientError>> + Send {
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

    /// Decides whether to go on after `error`, and when.
    fn lost(&mut self, error: ClientError) -> Result<Update, ClientError> {
        self.connection = None;
        let now = Instant::now();
        let since = *self.failing_since.get_or_insert(now);
        if !error.is_transient() || now.duration_since(since) >= self.patience {
            self.ended = true;
            return Err(error);
        }
        let wait = self.backoff.next(chance());
        self.reconnect_at = Some(now + wait);
        Ok(Update::Reconnecting { error, wait })
    }

    async fn advance(&mut self) -> Result<Option<Job>, ClientError> {
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
                // A client never sees a version twice, whatever a reconnect replays.
                if self.last_version.is_none_or(|last| job.version > last) {
                    return Ok(Some(job));
                }
            }
            connection.read(&self.client).await?;
            self.failing_since = None;
            self.backoff.reset();
            if let Some(retry) = connection.parser.take_retry() {
                self.backoff.set_first(retry);
            }
        }
    }

    /// Opens the stream after the last version seen; `None` when the server has nothing more.
    async fn connect(&mut self) -> Result<Option<Connection>, ClientError> {
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
    async fn read(&mut self, client: &Client) -> Result<(), ClientError> {
        match timeout(SILENCE_MAX, self.response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                self.parser.push(&chunk).map_err(|error| client.bad_response(error.to_string()))
            }
            Ok(Ok(None)) => Err(client.unreachable("it closed the connection")),
            Ok(Err(error)) => Err(client.connection_failed(&error)),
            Err(_) => Err(silent(client)),
        }
    }
}

fn silent(client: &Client) -> ClientError {
    client.unreachable(format!("no sign of life for {} s", SILENCE_MAX.as_secs()))
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
    async fn a_watcher_survives_restarts_without_gap_or_repeat() {
        let server = Server::start(vec![
            event_stream(&["retry: 1\n\n", &event(1, "pending"), &event(2, "running")]),
            // Cut in the middle of an event: it must come again, whole.
            event_stream(&["event: job\nid: 3\ndata: {\"jobId\""]),
            // A gateway with nobody behind it.
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
    async fn nothing_is_asked_after_the_terminal_event() {
        let server = Server::start(vec![event_stream(&[&event(9, "failed")])]).await;
        assert_eq!(versions(&server).await, [(9, Status::Failed)]);
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn no_content_ends_the_watch() {
        let gone = "HTTP/1.1 204 No Content\r\n\r\n".to_owned();
        let server = Server::start(vec![gone]).await;
        let mut events = server.client().events("01KA").after(9);
        assert!(events.next().await.unwrap().is_none());
        assert!(server.requests()[0].contains("last-event-id: 9\r\n"));
    }

    #[tokio::test]
    async fn a_refusal_is_final() {
        let server = Server::start(vec![problem(404, "job-not-found")]).await;
        let mut events = server.client().events("01KA");
        let error = events.next().await.unwrap_err();
        assert!(matches!(&error, ClientError::Refused(p) if p.code == "job-not-found"), "{error}");
        assert!(events.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn patience_ends() {
        let client = Client::new("http://127.0.0.1:1", None).unwrap();
        let mut events = client.events("01KA").patience(Duration::ZERO);
        assert!(matches!(events.next().await, Err(ClientError::Unreachable { .. })));
    }
}
