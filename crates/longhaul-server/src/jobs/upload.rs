//! Payload uploads: streams a body to the blob store, hashed and encrypted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CONTENT_TYPE, EXPECT};
use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{Stream, StreamExt};
use longhaul::job::Json;
use longhaul::{Engine, JobHandle, StagedPayload, TenantId, UploadError};
use sha2::{Digest, Sha256};

use crate::api::http::body::{announced, ended_early};
use crate::api::http::load_shedding::without_permit;
use crate::problem::{Code, Problem, Result};

const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// Retry delay while another upload with the same key is in progress.
const IN_PROGRESS_RETRY: Duration = Duration::from_secs(2);
/// Retry delay when the storage is full.
const STORED_RETRY: Duration = Duration::from_secs(10);

/// Idempotency keys of uploads in progress. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Uploads(
    /// A std mutex: locked for a set access, never across an await.
    Arc<Mutex<HashSet<(TenantId, String)>>>,
);

/// Reserves a key until dropped.
#[derive(Debug)]
pub(crate) struct UploadGuard {
    uploads: Uploads,
    key: Option<(TenantId, String)>,
}

impl Uploads {
    /// Begins an upload. Fails if another one with the same key is in progress.
    pub(crate) fn begin(&self, tenant: &TenantId, key: Option<&str>) -> Result<UploadGuard> {
        let key = key.map(|key| (tenant.clone(), key.to_owned()));
        if let Some(key) = &key {
            let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !keys.insert(key.clone()) {
                let detail =
                    "another upload with this idempotency key is in progress; retry to get its job";
                let problem = Problem::new(Code::UploadInProgress, detail);
                return Err(problem.retry_after(IN_PROGRESS_RETRY));
            }
        }
        Ok(UploadGuard { uploads: self.clone(), key })
    }
}

impl Drop for UploadGuard {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.uploads.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct PayloadHeaders {
    pub(crate) bytes: Option<u64>,
    pub(crate) digest: Option<[u8; 32]>,
    /// The client waits for `100 Continue`.
    pub(crate) expects_continue: bool,
    pub(crate) content_type: Option<String>,
}

impl PayloadHeaders {
    pub(crate) fn parse(headers: &HeaderMap, body: &Body) -> Result<Self> {
        let expects_continue = headers
            .get(EXPECT)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Ok(Self {
            // An empty body has no Content-Length.
            bytes: announced(headers).or(body.size_hint().exact()),
            digest: content_digest(headers)?,
            expects_continue,
            content_type: content_type.map(str::to_owned),
        })
    }

    /// Returns whether the payload may fit into `bytes_max` and needs no digest check or `100 Continue`.
    pub(crate) fn may_be_small(&self, bytes_max: usize) -> bool {
        let fits = self.bytes.is_none_or(|bytes| bytes <= bytes_max as u64);
        fits && self.digest.is_none() && !self.expects_continue
    }

    /// Returns whether an existing job can be returned without reading the body.
    pub(crate) fn may_skip_body(&self) -> bool {
        self.digest.is_some() || self.expects_continue || self.bytes == Some(0)
    }
}

/// Parses the SHA-256 of `Content-Digest` (RFC 9530).
fn content_digest(headers: &HeaderMap) -> Result<Option<[u8; 32]>> {
    let wrong = || {
        let detail = "Content-Digest: sha-256=:…: must contain 32 bytes in base64";
        Problem::new(Code::BadRequest, detail)
    };
    for value in headers.get_all(CONTENT_DIGEST) {
        let text = value.to_str().map_err(|_| wrong())?;
        for member in text.split(',').map(str::trim) {
            // Other algorithms are ignored.
            let Some(digest) = member.strip_prefix("sha-256=") else { continue };
            let base64 = digest.strip_prefix(':').and_then(|rest| rest.strip_suffix(':'));
            let bytes = STANDARD.decode(base64.ok_or_else(wrong)?).map_err(|_| wrong())?;
            return Ok(Some(bytes.try_into().map_err(|_| wrong())?));
        }
    }
    Ok(None)
}

/// Stores a payload chunk by chunk.
pub(crate) async fn store(
    engine: &Engine,
    headers: &PayloadHeaders,
    name: Option<String>,
    chunks: impl Stream<Item = Result<Bytes>>,
) -> Result<StagedPayload> {
    let mut upload = engine.upload().await.map_err(upload_problem)?;
    if let Some(content_type) = &headers.content_type {
        upload = upload.content_type(content_type);
    }
    if let Some(name) = name {
        upload = upload.name(name);
    }
    // Checked before the first read, which would send `100 Continue`.
    if let Some(bytes) = headers.bytes {
        upload.check(bytes).map_err(upload_problem)?;
    }
    let mut chunks = std::pin::pin!(chunks);
    while let Some(chunk) = without_permit(chunks.next()).await {
        let written = match chunk {
            Ok(chunk) => upload.write(chunk).await.map_err(upload_problem),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = written {
            upload.abort().await;
            return Err(problem);
        }
    }
    let staged = upload.finish().await.map_err(upload_problem)?;
    check_digest(headers, staged.digest())?;
    Ok(staged)
}

/// Hashes a payload without storing it, and returns the job with this key and payload.
pub(crate) async fn compare(
    engine: &Engine,
    headers: &PayloadHeaders,
    key: &str,
    kind: &str,
    input: &Json,
    chunks: impl Stream<Item = Result<Bytes>>,
) -> Result<Option<JobHandle>> {
    let max = engine.limits().payload_bytes_max;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut chunks = std::pin::pin!(chunks);
    while let Some(chunk) = without_permit(chunks.next()).await {
        let chunk = chunk?;
        bytes += chunk.len() as u64;
        if bytes > max {
            return Err(too_large(max));
        }
        hash.update(&chunk);
    }
    let digest: [u8; 32] = hash.finalize().into();
    check_digest(headers, &digest)?;
    Ok(engine.find_by_key(key, Some(kind), Some(input), Some(&digest)).await?)
}

fn check_digest(headers: &PayloadHeaders, digest: &[u8; 32]) -> Result<()> {
    if headers.digest.is_none_or(|expected| expected == *digest) {
        return Ok(());
    }
    let detail = "the body does not match its Content-Digest; nothing was stored";
    Err(Problem::new(Code::DigestMismatch, detail))
}

pub(crate) fn chunks(body: Body) -> impl Stream<Item = Result<Bytes>> {
    body.into_data_stream().map(|chunk| chunk.map_err(ended_early))
}

pub(crate) fn too_large(max: u64) -> Problem {
    let detail = format!("the payload has more than {max} bytes (payload_bytes_max)");
    Problem::new(Code::PayloadTooLarge, detail)
}

/// Converts the error of a payload that was not stored to a problem.
fn upload_problem(error: UploadError) -> Problem {
    use longhaul::blob::BlobError;
    match error {
        UploadError::Limit(over) => Problem::new(Code::PayloadTooLarge, over.to_string()),
        UploadError::TenantFull { .. } => {
            Problem::new(Code::StoredLimit, error.to_string()).retry_after(STORED_RETRY)
        }
        UploadError::NoBlobStore => Problem::new(Code::Validation, error.to_string()),
        UploadError::Store(error) => error.into(),
        UploadError::Blob(BlobError::StorageFull) => {
            Problem::new(Code::StorageFull, "the blob store is full").retry_after(STORED_RETRY)
        }
        UploadError::Blob(error) if error.is_transient() => {
            let detail = "the blob store is unavailable; nothing was stored: retry";
            Problem::new(Code::Unavailable, detail)
                .retry_after(Duration::from_secs(1))
                .with_source(error)
        }
        UploadError::Blob(error) => Problem::internal(error),
    }
}
