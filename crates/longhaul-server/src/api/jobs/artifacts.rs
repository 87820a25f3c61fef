//! Artifacts and receipts of jobs.

use std::ops::Range;

use axum::Json;
use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul::blob::BlobError;
use longhaul::{ArtifactError, Engine, JobId, StoredArtifact};
use longhaul_client::wire::Receipt;

use crate::api::http::caller::Caller;
use crate::api::http::openapi::{ArtifactProblems, PathOfJob, ReceiptProblems};
use crate::api::http::params::{ArtifactPath, JobPath, items, whole};
use crate::api::http::respond::set_header;
use crate::encoding;
use crate::jobs::query;
use crate::problem::{Code, Problem, Result};
use crate::security_headers::SANDBOX;

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
const BYTES: HeaderValue = HeaderValue::from_static("bytes");

/// Download an artifact.
///
/// Supports a single byte range. The `ETag` is the digest of the bytes.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/artifacts/{name}", operation_id = "getArtifact", tag = "jobs",
    params(
        PathOfJob,
        ("name" = String, Path, description = "The artifact's name."),
        ("Range" = Option<String>, Header, description = "A single byte range, for example `bytes=0-1023`."),
        ("If-None-Match" = Option<String>, Header, description = "Known digests, as entity tags."),
        ("If-Range" = Option<String>, Header, description = "Digest of a partial copy, as an entity tag."),
    ),
    responses(
        (status = 200, description = "The artifact.", content_type = "application/octet-stream", body = String),
        (status = 206, description = "The requested range.", content_type = "application/octet-stream", body = String),
        (status = 304, description = "Unchanged."),
        ArtifactProblems,
    ),
)]
pub(super) async fn get_artifact(
    caller: Caller,
    ArtifactPath(id, name): ArtifactPath,
    headers: HeaderMap,
) -> Result<Response> {
    serve_artifact(&caller.engine, id, &name, &headers).await
}

/// Responds with an artifact, or with the range that the headers request.
pub(crate) async fn serve_artifact(
    engine: &Engine,
    id: JobId,
    name: &str,
    headers: &HeaderMap,
) -> Result<Response> {
    let artifact = engine.artifact(id, name).await?;
    let etag = format!("\"{}\"", encoding::hex(&artifact.digest()));
    if is_known(headers, &etag) {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        set_header(&mut response, ETAG, &etag);
        return Ok(response);
    }
    let range_applies =
        headers.get(IF_RANGE).is_none_or(|value| value.as_bytes() == etag.as_bytes());
    let requested =
        headers.get(RANGE).filter(|_| range_applies).and_then(|value| value.to_str().ok());
    let range = match requested.map(|text| range(text, artifact.size())) {
        Some(RangeRequest::Part(range)) => Some(range),
        Some(RangeRequest::Outside) => return Err(outside(artifact.size())),
        Some(RangeRequest::Everything) | None => None,
    };
    let bytes = Body::from_stream(artifact.read(range.clone()).await?);
    let mut response = Response::new(bytes);
    let length = range.as_ref().map_or(artifact.size(), |range| range.end - range.start);
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    if let Some(range) = &range {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let (first, last, size) = (range.start, range.end - 1, artifact.size());
        set_header(&mut response, CONTENT_RANGE, &format!("bytes {first}-{last}/{size}"));
    }
    describe(&mut response, &artifact, name, &etag);
    Ok(response)
}

fn describe(response: &mut Response, artifact: &StoredArtifact, name: &str, etag: &str) {
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, BYTES);
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
    // Caches must revalidate, because the bytes of a purged job must not be served from a cache.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    let octets = HeaderValue::from_static("application/octet-stream");
    let content_type = HeaderValue::from_str(artifact.content_type()).unwrap_or(octets);
    headers.insert(CONTENT_TYPE, content_type);
    set_header(response, ETAG, etag);
    let digest = STANDARD.encode(artifact.digest());
    set_header(response, REPR_DIGEST, &format!("sha-256=:{digest}:"));
    let file = format!("attachment; filename*=UTF-8''{}", encoding::path_segment(name));
    set_header(response, CONTENT_DISPOSITION, &file);
}

/// Returns whether `If-None-Match` names an entity tag, compared weakly.
pub(crate) fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    items(headers, IF_NONE_MATCH)
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// A parsed `Range` header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RangeRequest {
    Part(Range<u64>),
    /// Several ranges, other units or invalid: RFC 9110 allows to ignore the header.
    Everything,
    Outside,
}

pub(super) fn range(text: &str, size: u64) -> RangeRequest {
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|one| one.split_once('-'))
    else {
        return RangeRequest::Everything;
    };
    let (first, last) = (first.trim(), last.trim());
    let requested = match (whole(first), whole(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(size),
        (Some(first), None) if last.is_empty() => first..size,
        (None, Some(count)) if first.is_empty() => size.saturating_sub(count)..size,
        (Some(_) | None, Some(_) | None) => return RangeRequest::Everything,
    };
    if requested.start < requested.end {
        RangeRequest::Part(requested)
    } else {
        RangeRequest::Outside
    }
}

fn outside(size: u64) -> Problem {
    let detail = format!("the artifact has {size} bytes");
    let problem = Problem::new(Code::RangeNotSatisfiable, detail);
    problem.text_header(CONTENT_RANGE, &format!("bytes */{size}"))
}

impl From<ArtifactError> for Problem {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::Store(error) => error.into(),
            ArtifactError::Unknown { .. } => Self::new(Code::ArtifactNotFound, error.to_string()),
            ArtifactError::Blob(BlobError::Missing) => {
                Self::new(Code::ArtifactNotFound, "the artifact is no longer in the blob store")
                    .with_source(error)
            }
            ArtifactError::Blob(ref blob) if blob.is_transient() => {
                Self::new(Code::Unavailable, "the blob store is unavailable")
                    .retry_after(std::time::Duration::from_secs(1))
                    .with_source(error)
            }
            ArtifactError::Blob(_) | ArtifactError::Key(_) => Self::internal(error),
        }
    }
}

/// Read a job's receipt: everything that was stored for it, and when it was deleted.
///
/// Also available for a deleted job as long as its id is remembered.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/receipt", operation_id = "getReceipt", tag = "jobs",
    params(PathOfJob),
    responses((status = 200, description = "The receipt.", body = Receipt), ReceiptProblems),
)]
pub(super) async fn get_receipt(caller: Caller, JobPath(id): JobPath) -> Result<Json<Receipt>> {
    Ok(Json(query::receipt(&caller, id).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_byte_range_is_parsed_and_others_are_ignored() {
        for (text, expected) in [
            ("bytes=0-0", RangeRequest::Part(0..1)),
            ("bytes=2-4", RangeRequest::Part(2..5)),
            ("bytes=2-", RangeRequest::Part(2..10)),
            ("bytes=2-99", RangeRequest::Part(2..10)),
            ("bytes=-3", RangeRequest::Part(7..10)),
            ("bytes=-99", RangeRequest::Part(0..10)),
            ("bytes=10-", RangeRequest::Outside),
            ("bytes=10-12", RangeRequest::Outside),
            ("bytes=-0", RangeRequest::Outside),
            ("bytes=4-2", RangeRequest::Everything),
            ("bytes=0-1,3-4", RangeRequest::Everything),
            ("bytes=", RangeRequest::Everything),
            ("bytes=-", RangeRequest::Everything),
            ("lines=1-2", RangeRequest::Everything),
        ] {
            assert_eq!(range(text, 10), expected, "{text}");
        }
        assert_eq!(range("bytes=0-", 0), RangeRequest::Outside);
    }
}
