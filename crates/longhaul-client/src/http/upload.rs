//! Submission of a job with a payload.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, RETRY_AFTER};
use reqwest::multipart::{Form, Part};
use reqwest::{RequestBuilder, Response};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::call::{Attempts, Call, RESPONSE_TIMEOUT};
use super::payload::{OpenPayload, Payload, Turn};
use super::{Client, ClientError, Result, SubmitOptions};
use crate::wire::{Job, RawJson, SubmitRequest};

/// Problem code while another request uploads a payload with the same key; worth waiting for.
const IN_PROGRESS: &str = "upload-in-progress";
/// Longest wait for that other request.
pub(super) const IN_PROGRESS_PATIENCE: Duration = Duration::from_mins(10);
/// Delay before the next attempt, unless the server names one.
const IN_PROGRESS_WAIT: Duration = Duration::from_secs(2);

/// Error of one attempt.
struct UploadError {
    error: ClientError,
    /// Delay that the server requests.
    retry_after: Option<Duration>,
}

impl From<ClientError> for UploadError {
    fn from(error: ClientError) -> Self {
        Self { error, retry_after: None }
    }
}

impl Client {
    /// Submits a job with a payload, which is streamed.
    ///
    /// With a key, a file is sent again without a response, as by [`Client::submit`]. A payload that
    /// can be read only once is not: the error mentions it, and the job may or may not exist.
    pub async fn submit_with_payload(
        &self,
        request: &SubmitRequest,
        mut payload: Payload,
        options: &SubmitOptions,
    ) -> Result<Job> {
        let call = self.submission(options)?.body(request)?;
        let mut attempts = Attempts::new(call.repeat);
        let give_up_at = Instant::now() + IN_PROGRESS_PATIENCE;
        loop {
            let opened = payload.open().await?;
            let again = opened.again;
            let UploadError { error, retry_after } =
                match self.upload(&call, &payload, opened).await {
                    Ok(job) => return Ok(job),
                    Err(failed) if again => failed,
                    Err(failed) => return Err(failed.error),
                };
            if is_in_progress(&error) && Instant::now() < give_up_at {
                sleep(retry_after.unwrap_or(IN_PROGRESS_WAIT)).await;
            } else {
                attempts.wait_after(error).await?;
            }
        }
    }

    async fn upload(
        &self,
        call: &Call,
        payload: &Payload,
        opened: OpenPayload,
    ) -> Result<Job, UploadError> {
        let again = opened.again;
        let unanswered = |error| if again { error } else { only_once(error) };
        let (part, turns) = payload.part(opened)?;
        let request = self.in_parts(call, part)?;
        let response = tokio::select! {
            sent = request.send() => sent.map_err(|error| match payload.broken(&error) {
                Some(broken) => broken,
                None if error.is_connect() => self.connection_failed(&error),
                None => unanswered(self.connection_failed(&error)),
            })?,
            () = stalled(turns, call.hold.saturating_add(RESPONSE_TIMEOUT)) => {
                return Err(unanswered(self.unreachable("timed out")).into());
            }
        };
        let retry_after = retry_after(response.headers());
        let body = self.read_in_time(response).await;
        let body = body.map_err(|error| UploadError { error: unanswered(error), retry_after })?;
        Ok(self.parse(&body)?)
    }

    fn in_parts(&self, call: &Call, payload: Part) -> Result<RequestBuilder> {
        let text = call.body.as_ref().map(RawJson::as_str).unwrap_or_default().to_owned();
        let job = Part::text(text).mime_str("application/json");
        let job = job.map_err(|error| ClientError::Invalid(error.to_string()))?;
        Ok(self
            .request(call.method.clone(), call.url.clone())
            .headers(call.headers.clone())
            .header(ACCEPT, "application/json")
            // The server needs this order.
            .multipart(Form::new().part("job", job).part("payload", payload)))
    }

    async fn read_in_time(&self, response: Response) -> Result<Vec<u8>> {
        match timeout(RESPONSE_TIMEOUT, self.read(response)).await {
            Ok(read) => read,
            Err(_) => Err(self.unreachable("timed out")),
        }
    }
}

/// Returns when the server has been idle for `max`. Neither the total duration nor the speed of the
/// source is limited.
async fn stalled(mut turns: watch::Receiver<Turn>, max: Duration) {
    loop {
        let turn = *turns.borrow_and_update();
        let changed = match turn {
            Turn::Source => turns.changed().await,
            Turn::Server => match timeout(max, turns.changed()).await {
                Ok(changed) => changed,
                Err(_) => return,
            },
        };
        if changed.is_err() {
            // Everything is sent; only the response is missing.
            return sleep(max).await;
        }
    }
}

fn is_in_progress(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(problem) if problem.code == IN_PROGRESS)
}

/// Adds the reason why a request without a response was not retried.
fn only_once(error: ClientError) -> ClientError {
    match error {
        ClientError::Unreachable { server, reason } => {
            let reason = format!(
                "{reason}; the payload can be read only once, so it was not sent again, and the \
                 job may or may not have been accepted"
            );
            ClientError::Unreachable { server, reason }
        }
        ClientError::Refused(_)
        | ClientError::Protocol { .. }
        | ClientError::Payload { .. }
        | ClientError::Invalid(_) => error,
    }
}

/// Parses the seconds of `Retry-After`. A date, which Longhaul never sends, is ignored.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    // Rejects signs, and caps the delay.
    let seconds = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(Duration::from_secs(seconds).min(IN_PROGRESS_PATIENCE))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, ReadBuf};

    use super::*;
    use crate::http::testing::{Server, job, json, problem};

    fn request() -> SubmitRequest {
        SubmitRequest::new("resize", &()).unwrap()
    }

    fn keyed() -> SubmitOptions {
        SubmitOptions { idempotency_key: Some("k".to_owned()), wait: None }
    }

    fn accepted() -> String {
        json("202 Accepted", &job(1, "pending"))
    }

    /// Creates a directory with one file.
    fn file(name: &str, bytes: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    /// A reader that always fails.
    struct Torn;

    impl AsyncRead for Torn {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("the tape is torn")))
        }
    }

    /// Returns the body of a request without its random boundary.
    fn body(request: &str) -> String {
        let boundary = request.split_once("boundary=").unwrap().1.lines().next().unwrap();
        let body = request.split_once("\r\n\r\n").unwrap().1;
        body.replace(boundary, "B").replace('\r', "")
    }

    #[test]
    fn retry_after_is_capped_and_has_no_sign() {
        let wait = |text: &'static str| {
            let value = reqwest::header::HeaderValue::from_static(text);
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]))
        };
        assert_eq!(wait("30"), Some(Duration::from_secs(30)));
        assert_eq!(wait("99999999999"), Some(IN_PROGRESS_PATIENCE));
        for other in ["", "+2", "-2", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(wait(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn upload_sends_the_job_before_its_payload() {
        let (_folder, path) = file("cat.png", "meow");
        let server = Server::start(vec![accepted()]).await;
        let sent = Arc::new(Mutex::new(Vec::new()));
        let sent_bytes = Arc::clone(&sent);
        let payload =
            Payload::file(path).on_progress(move |bytes| sent_bytes.lock().unwrap().push(bytes));
        server.client().submit_with_payload(&request(), payload, &keyed()).await.unwrap();
        let request = &server.requests()[0];
        assert!(request.contains("\r\ncontent-length: "), "{request}");
        insta::assert_snapshot!(body(request), @r#"
        --B
        Content-Disposition: form-data; name="job"
        Content-Type: application/json

        {"kind":"resize","input":null}
        --B
        Content-Disposition: form-data; name="payload"; filename="cat.png"
        Content-Type: image/png

        meow
        --B--
        "#);
        assert_eq!(*sent.lock().unwrap(), [4]);
    }

    #[tokio::test]
    async fn file_upload_is_retried_with_a_key() {
        let (_folder, path) = file("a.bin", "bytes");
        let server = Server::start(vec![String::new(), accepted()]).await;
        let payload = Payload::file(path);
        server.client().submit_with_payload(&request(), payload, &keyed()).await.unwrap();
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        for request in requests {
            assert!(request.contains("idempotency-key: k\r\n"), "{request}");
            assert!(request.contains("\r\n\r\nbytes\r\n--"), "{request}");
        }
    }

    #[tokio::test]
    async fn file_upload_is_not_retried_without_a_key() {
        let (_folder, path) = file("a.bin", "bytes");
        let server = Server::start(vec![String::new(), accepted()]).await;
        let options = SubmitOptions::default();
        let refused =
            server.client().submit_with_payload(&request(), Payload::file(path), &options).await;
        assert!(matches!(refused, Err(ClientError::Unreachable { .. })), "{refused:?}");
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn reader_upload_is_not_retried_and_the_error_says_so() {
        let server = Server::start(vec![String::new(), accepted()]).await;
        let payload = Payload::reader("stdin", &b"bytes"[..]);
        let lost = server.client().submit_with_payload(&request(), payload, &keyed()).await;
        let error = lost.unwrap_err().to_string();
        assert!(error.contains("the payload can be read only once"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn concurrent_upload_with_the_same_key_is_waited_for() {
        let (_folder, path) = file("a.bin", "bytes");
        let busy = problem(409, "upload-in-progress").replacen("\r\n", "\r\nretry-after: 0\r\n", 1);
        let answers = vec![busy.clone(), busy.clone(), busy.clone(), busy, accepted()];
        let server = Server::start(answers).await;
        let payload = Payload::file(path);
        server.client().submit_with_payload(&request(), payload, &keyed()).await.unwrap();
        assert_eq!(server.requests().len(), 5);
    }

    #[tokio::test]
    async fn rejected_upload_is_not_retried() {
        for (status, code) in [(413, "payload-too-large"), (429, "stored-limit")] {
            let (_folder, path) = file("a.bin", "bytes");
            let server = Server::start(vec![problem(status, code), accepted()]).await;
            let payload = Payload::file(path);
            let refused = server.client().submit_with_payload(&request(), payload, &keyed()).await;
            let error = refused.unwrap_err().to_string();
            assert_eq!(error, format!("d ({status} {code})"));
        }
    }

    #[tokio::test]
    async fn unreadable_payload_is_not_reported_as_unreachable() {
        let client = Client::new("http://127.0.0.1:1", None).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        for (path, reason) in
            [(folder.path(), "it is a folder"), (missing.as_path(), "No such file or directory")]
        {
            let payload = Payload::file(path);
            let error = client.submit_with_payload(&request(), payload, &keyed()).await;
            let message = error.unwrap_err().to_string();
            assert_eq!(message, format!("cannot read {}: {reason}", path.display()));
        }

        let server = Server::start(vec![accepted()]).await;
        let payload = Payload::reader("tape", Torn);
        let error = server.client().submit_with_payload(&request(), payload, &keyed()).await;
        insta::assert_snapshot!(error.unwrap_err(), @"cannot read tape: the tape is torn");
    }

    #[tokio::test]
    async fn invalid_media_type_is_rejected_before_sending() {
        let client = Client::new("http://127.0.0.1:1", None).unwrap();
        let payload = Payload::reader("x", &b""[..]).content_type("picture");
        let error = client.submit_with_payload(&request(), payload, &keyed()).await.unwrap_err();
        insta::assert_snapshot!(error, @r#""picture" is not a media type: write it like image/png"#);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_payload_source_is_not_a_stalled_server() {
        let (turn, turns) = watch::channel(Turn::Server);
        let began_at = Instant::now();
        stalled(turns.clone(), RESPONSE_TIMEOUT).await;
        assert_eq!(began_at.elapsed(), RESPONSE_TIMEOUT);

        turn.send_replace(Turn::Source);
        let slow = timeout(RESPONSE_TIMEOUT * 100, stalled(turns.clone(), RESPONSE_TIMEOUT)).await;
        assert!(slow.is_err());

        drop(turn);
        stalled(turns, RESPONSE_TIMEOUT).await;
        assert_eq!(began_at.elapsed(), RESPONSE_TIMEOUT * 102);
    }
}
