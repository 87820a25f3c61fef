//! From a target's answer to what is kept of it, with a small body in memory and none larger.

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, StatusCode};
use longhaul::{Ctx, JobError};
use reqwest::Response;

use super::headers::remove_hop_by_hop;
use super::response::{BODY_ARTIFACT, INLINE_BYTES_MAX, StoredResponse};
use longhaul_net::egress::SendError;

/// What bytes are that nobody has described.
const BYTES: &str = "application/octet-stream";

/// Why an answer was not kept.
pub(super) enum ExchangeError {
    /// It broke off.
    Sending(SendError),
    /// It could not be stored.
    Storing(JobError),
}

impl From<JobError> for ExchangeError {
    fn from(error: JobError) -> Self {
        Self::Storing(error)
    }
}

/// An answer as it comes in.
pub(super) struct IncomingResponse {
    response: Response,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
}

impl IncomingResponse {
    /// The head is there.
    pub(super) fn new(mut response: Response, method: &Method) -> Self {
        let status = response.status();
        let mut headers = std::mem::take(response.headers_mut());
        remove_hop_by_hop(&mut headers);
        // It is said anew by whoever sends the body on; here there is none to measure.
        if *method != Method::HEAD && status != StatusCode::NOT_MODIFIED {
            headers.remove(CONTENT_LENGTH);
        }
        Self { response, status, headers }
    }

    /// All of it: a small text as it is, everything else as an artifact.
    pub(super) async fn whole(mut self, ctx: &Ctx) -> Result<StoredResponse, ExchangeError> {
        let (beginning, more) = self.beginning().await?;
        let (status, headers) = (self.status, &self.headers);
        if more.is_none()
            && let Some(answer) =
                StoredResponse::with_text(status, headers, &beginning).map_err(bug)?
        {
            return Ok(answer);
        }
        let content_type = headers.get(http::header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or(BYTES);
        let mut artifact = ctx.artifact(BODY_ARTIFACT, content_type)?;
        artifact.write(beginning).await?;
        let mut next = more;
        while let Some(piece) = next {
            artifact.write(piece).await?;
            next = self.piece().await?;
        }
        artifact.finish().await?;
        Ok(StoredResponse::with_artifact(self.status, &self.headers).map_err(bug)?)
    }

    /// As much as fits into a step, of an answer that failed its attempt. What breaks off counts as cut.
    pub(super) async fn cut(mut self) -> Result<StoredResponse, JobError> {
        let (mut bytes, mut cut) = (BytesMut::new(), false);
        while !cut {
            match self.piece().await {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => break,
                Err(_) => cut = true,
            }
            cut |= bytes.len() > INLINE_BYTES_MAX;
        }
        bytes.truncate(INLINE_BYTES_MAX);
        StoredResponse::with_bytes(self.status, &self.headers, &bytes, cut).map_err(bug)
    }

    /// What is small enough to be kept in memory, and the first piece of what is beyond that.
    async fn beginning(&mut self) -> Result<(Bytes, Option<Bytes>), ExchangeError> {
        let mut bytes = BytesMut::new();
        while let Some(piece) = self.piece().await? {
            if bytes.len() + piece.len() > INLINE_BYTES_MAX {
                return Ok((bytes.freeze(), Some(piece)));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok((bytes.freeze(), None))
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, ExchangeError> {
        let piece = self.response.chunk().await;
        piece.map_err(|error| ExchangeError::Sending(SendError::classify(&error, None)))
    }
}

fn bug(error: impl std::fmt::Display) -> JobError {
    JobError::fatal(format!("the target's answer cannot be kept: {error}"))
}
