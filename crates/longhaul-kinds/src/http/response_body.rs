//! Reads a response: small bodies into memory, larger ones into an artifact.

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, StatusCode};
use longhaul::{Ctx, JobError};
use reqwest::Response;

use super::headers::remove_hop_by_hop;
use super::response::{BODY_ARTIFACT, INLINE_BYTES_MAX, StoredResponse};
use longhaul_net::egress::SendError;

const OCTET_STREAM: &str = "application/octet-stream";

pub(super) enum ExchangeError {
    Send(SendError),
    Store(JobError),
}

impl From<JobError> for ExchangeError {
    fn from(error: JobError) -> Self {
        Self::Store(error)
    }
}

/// Response whose body is not read yet.
pub(super) struct IncomingResponse {
    response: Response,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
}

impl IncomingResponse {
    pub(super) fn new(mut response: Response, method: &Method) -> Self {
        let status = response.status();
        let mut headers = std::mem::take(response.headers_mut());
        remove_hop_by_hop(&mut headers);
        // Recomputed when the body is sent on. Responses without a body keep it.
        if *method != Method::HEAD && status != StatusCode::NOT_MODIFIED {
            headers.remove(CONTENT_LENGTH);
        }
        Self { response, status, headers }
    }

    /// Stores the response: a small text inline, other bodies as an artifact.
    pub(super) async fn store(mut self, ctx: &Ctx) -> Result<StoredResponse, ExchangeError> {
        let (inline, more) = self.read_inline().await?;
        let (status, headers) = (self.status, &self.headers);
        if more.is_none()
            && let Some(response) =
                StoredResponse::with_text(status, headers, &inline).map_err(store_failed)?
        {
            return Ok(response);
        }
        let content_type = headers.get(http::header::CONTENT_TYPE);
        let content_type =
            content_type.and_then(|value| value.to_str().ok()).unwrap_or(OCTET_STREAM);
        let mut artifact = ctx.artifact(BODY_ARTIFACT, content_type)?;
        artifact.write(inline).await?;
        let mut next = more;
        while let Some(chunk) = next {
            artifact.write(chunk).await?;
            next = self.chunk().await?;
        }
        artifact.finish().await?;
        Ok(StoredResponse::with_artifact(self.status, &self.headers).map_err(store_failed)?)
    }

    /// Returns the response of a failed attempt, truncated to fit into a step.
    pub(super) async fn truncated(mut self) -> Result<StoredResponse, JobError> {
        let (mut bytes, mut cut) = (BytesMut::new(), false);
        while !cut {
            match self.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(_) => cut = true,
            }
            cut |= bytes.len() > INLINE_BYTES_MAX;
        }
        bytes.truncate(INLINE_BYTES_MAX);
        StoredResponse::with_bytes(self.status, &self.headers, &bytes, cut).map_err(store_failed)
    }

    /// Reads up to the inline limit. Returns the first chunk beyond it, if any.
    async fn read_inline(&mut self) -> Result<(Bytes, Option<Bytes>), ExchangeError> {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if bytes.len() + chunk.len() > INLINE_BYTES_MAX {
                return Ok((bytes.freeze(), Some(chunk)));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok((bytes.freeze(), None))
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, ExchangeError> {
        let chunk = self.response.chunk().await;
        chunk.map_err(|error| ExchangeError::Send(SendError::classify(&error, None)))
    }
}

fn store_failed(error: impl std::fmt::Display) -> JobError {
    JobError::fatal(format!("the response cannot be stored: {error}"))
}
