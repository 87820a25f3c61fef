//! Download of artifacts, across lost connections, with verification of the digest.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{Stream, stream};
use reqwest::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_RANGE, RANGE,
};
use reqwest::{Method, Response, StatusCode, Url};
use sha2::{Digest, Sha256};
use tokio::time::{sleep, timeout};

use super::call::{Attempts, Repeat};
use super::retry::Reconnection;
use super::{Client, ClientError, Result};

/// Longest silence of the server.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Time without a connection after which a download fails.
const GIVE_UP_AFTER: Duration = Duration::from_mins(2);

/// Download of an artifact.
///
/// Continues after a lost connection. The last chunk is returned only if the digest matches.
#[derive(Debug)]
pub struct Download {
    client: Client,
    url: Url,
    about: About,
    response: Option<Response>,
    received: u64,
    hash: Sha256,
    reconnection: Reconnection,
    ended: bool,
}

/// Metadata from the first response.
#[derive(Debug)]
struct About {
    size: Option<u64>,
    content_type: String,
    /// Version of the content, for range requests.
    etag: Option<HeaderValue>,
    sha256: Option<Vec<u8>>,
}

impl Client {
    /// Starts the download of an artifact.
    pub async fn artifact(&self, id: &str, name: &str) -> Result<Download> {
        let url = self.artifact_url(id, name)?;
        let mut attempts = Attempts::new(Repeat::Safe);
        loop {
            match self.bytes_from(&url, HeaderMap::new()).await {
                Ok(response) => return Ok(Download::new(self.clone(), url, response)),
                Err(error) => attempts.wait_after(error).await?,
            }
        }
    }

    fn artifact_url(&self, id: &str, name: &str) -> Result<Url> {
        // Validates the id.
        self.job_url(id, None)?;
        self.url(&["v1", "jobs", id, "artifacts", name])
    }

    async fn bytes_from(&self, url: &Url, headers: HeaderMap) -> Result<Response> {
        let request = self.request(Method::GET, url.clone()).headers(headers);
        match timeout(SILENCE_MAX, request.send()).await {
            Ok(Ok(response)) => self.accepted(response).await,
            Ok(Err(error)) => Err(self.connection_failed(&error)),
            Err(_) => Err(self.unreachable("timed out")),
        }
    }
}

impl Download {
    fn new(client: Client, url: Url, response: Response) -> Self {
        Self {
            client,
            url,
            about: About::of(response.headers()),
            response: Some(response),
            received: 0,
            hash: Sha256::new(),
            reconnection: Reconnection::new(GIVE_UP_AFTER),
            ended: false,
        }
    }

    /// Returns the size in bytes, if the server sends it.
    pub fn size(&self) -> Option<u64> {
        self.about.size
    }

    /// Returns the media type.
    pub fn content_type(&self) -> &str {
        &self.about.content_type
    }

    /// Returns the next chunk; `None` after the last one, once the digest is verified. After an error the
    /// download has ended, and the received bytes must be discarded.
    ///
    /// Cancel safe: dropping the future loses no bytes.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        while !self.ended {
            // Yields, because a fast server could otherwise block other work of this task.
            tokio::task::yield_now().await;
            match self.advance().await {
                Ok(Some(piece)) => {
                    self.reconnection.succeeded();
                    self.received += piece.len() as u64;
                    self.hash.update(&piece);
                    return Ok(Some(piece));
                }
                Ok(None) => {
                    self.ended = true;
                    self.check()?;
                }
                Err(error) => self.wait_after(error).await?,
            }
        }
        Ok(None)
    }

    /// Returns the chunks as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes>> + Send {
        stream::try_unfold(self, |mut download| async move {
            Ok(download.next().await?.map(|piece| (piece, download)))
        })
    }

    async fn advance(&mut self) -> Result<Option<Bytes>> {
        if self.about.size == Some(self.received) {
            return Ok(None);
        }
        let response = match &mut self.response {
            Some(response) => response,
            none => none.insert(self.client.rest_of(&self.url, &self.about, self.received).await?),
        };
        match timeout(SILENCE_MAX, response.chunk()).await {
            Ok(Ok(Some(piece))) => Ok(Some(piece)),
            Ok(Ok(None)) if self.about.size.is_none() => Ok(None),
            Ok(Ok(None)) => Err(self.client.unreachable("the server closed the connection")),
            Ok(Err(error)) => Err(self.client.connection_failed(&error)),
            Err(_) => Err(self.client.unreachable("the server stopped sending")),
        }
    }

    /// Waits before a retry, or returns the error if none is possible.
    async fn wait_after(&mut self, error: ClientError) -> Result<()> {
        self.response = None;
        let resumable = self.received == 0 || self.about.etag.is_some();
        let Some(delay) = self.reconnection.delay_after(&error).filter(|_| resumable) else {
            self.ended = true;
            return Err(error);
        };
        sleep(delay).await;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let sha256 = self.hash.clone().finalize();
        match &self.about.sha256 {
            Some(said) if said.as_slice() != sha256.as_slice() => {
                let what = format!("the bytes of {} are not those of its digest", self.url.path());
                Err(self.client.bad_response(what))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Client {
    /// Requests the remaining bytes of the same version of an artifact.
    async fn rest_of(&self, url: &Url, about: &About, from: u64) -> Result<Response> {
        let mut headers = HeaderMap::new();
        if let Some(etag) = about.etag.clone().filter(|_| from > 0) {
            let range = HeaderValue::from_str(&format!("bytes={from}-"));
            headers.insert(RANGE, range.map_err(|error| self.bad_response(error.to_string()))?);
            headers.insert(IF_RANGE, etag);
        }
        let response = self.bytes_from(url, headers).await?;
        let goes_on = match response.status() {
            StatusCode::PARTIAL_CONTENT => begins_at(response.headers(), from),
            _ => from == 0,
        };
        if goes_on {
            return Ok(response);
        }
        Err(self.bad_response(format!("{} changed during the download", url.path())))
    }
}

impl About {
    fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let digest = text("repr-digest").and_then(|digests| {
            digests.split(',').find_map(|digest| digest.trim().strip_prefix("sha-256=:"))
        });
        let sha256 = digest.and_then(|digest| STANDARD.decode(digest.strip_suffix(':')?).ok());
        Self {
            size: text(CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok()),
            content_type: text(CONTENT_TYPE.as_str()).unwrap_or_default().to_owned(),
            etag: headers.get(ETAG).cloned(),
            sha256,
        }
    }
}

/// Returns whether `Content-Range: bytes 5-9/10` starts at `from`.
fn begins_at(headers: &HeaderMap, from: u64) -> bool {
    let range = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing::{Server, problem};

    const DIGEST: &str = "sha-256=:hNiYd/DUBB77a/kaFvAkjy/Vc+avBcGflr7bn4gveII=:";

    /// A response for `0123456789` that breaks off after `bytes`.
    fn whole(bytes: &str) -> String {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10\r\netag: \"e\"\r\n\
             repr-digest: {DIGEST}\r\n\r\n{bytes}"
        )
    }

    fn rest(from: usize, bytes: &str) -> String {
        let length = 10 - from;
        format!(
            "HTTP/1.1 206 Partial\r\ncontent-length: {length}\r\ncontent-range: bytes {from}-9/10\r\n\
             etag: \"e\"\r\n\r\n{bytes}"
        )
    }

    async fn read(server: &Server) -> Result<String> {
        let mut download = server.client().artifact("01KA", "a b.txt").await?;
        assert_eq!((download.size(), download.content_type()), (Some(10), "text/plain"));
        let mut text = Vec::new();
        while let Some(piece) = download.next().await? {
            text.extend_from_slice(&piece);
        }
        Ok(String::from_utf8(text).unwrap())
    }

    #[tokio::test]
    async fn download_continues_after_a_lost_connection() {
        let answers = vec![whole("0123"), String::new(), rest(4, "45"), rest(6, "6789")];
        let server = Server::start(answers).await;
        assert_eq!(read(&server).await.unwrap(), "0123456789");
        let requests = server.requests();
        assert!(requests[0].starts_with("GET /v1/jobs/01KA/artifacts/a%20b.txt "), "{requests:?}");
        assert!(!requests[0].contains("range"), "{requests:?}");
        for (request, from) in requests[1..].iter().zip([4, 4, 6]) {
            assert!(request.contains(&format!("\r\nrange: bytes={from}-\r\n")), "{request}");
            assert!(request.contains("\r\nif-range: \"e\"\r\n"), "{request}");
        }
    }

    #[tokio::test]
    async fn changed_artifact_fails_the_download() {
        for other in [whole("0123456789"), rest(3, "3456789")] {
            let server = Server::start(vec![whole("0123"), other]).await;
            let error = read(&server).await.unwrap_err().to_string();
            assert!(error.contains("changed during the download"), "{error}");
        }
    }

    #[tokio::test]
    async fn download_with_a_wrong_digest_is_an_error() {
        let server = Server::start(vec![whole("012345678x")]).await;
        let error = read(&server).await.unwrap_err().to_string();
        assert!(error.contains("are not those of its digest"), "{error}");
    }

    #[tokio::test]
    async fn rejected_download_is_not_retried() {
        let server =
            Server::start(vec![whole("0123"), problem(404, "artifact-not-found"), whole("")]).await;
        let error = read(&server).await.unwrap_err();
        insta::assert_snapshot!(error, @"d (404 artifact-not-found)");
    }

    #[tokio::test]
    async fn artifact_name_cannot_address_another_route() {
        let client = Client::new("http://host:1", None).unwrap();
        assert!(matches!(client.artifact("01KA", "..").await, Err(ClientError::Invalid(_))));
        let url = client.artifact_url("01KA", "../../queues").unwrap();
        assert_eq!(url.path(), "/v1/jobs/01KA/artifacts/..%2F..%2Fqueues");
    }
}
