//! Stored response of a target: a job's result, or a step after a failed attempt. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::headers::{self, HeaderField, InvalidHeader};

/// Bytes of an inlined body. Larger ones become an artifact.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
pub const BODY_ARTIFACT: &str = "body";

/// Response with any status. Its `Debug` output omits headers and body.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredResponse {
    pub status: u16,
    /// Without hop-by-hop headers.
    pub headers: Vec<HeaderField>,
    pub body: Box<RawValue>,
    pub encoding: BodyEncoding,
    /// Whitespace in front of and behind a JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<(String, String)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyEncoding {
    Json,
    Text,
    /// Other bytes, of a failed attempt.
    Base64,
    /// `body` is the name of the artifact.
    Artifact,
}

#[derive(Debug, thiserror::Error)]
pub enum StoredResponseError {
    #[error(transparent)]
    HeaderField(#[from] InvalidHeader),
    #[error("{0} is not a valid status")]
    Status(u16),
    #[error("the stored body is invalid")]
    Body,
}

impl std::fmt::Debug for StoredResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredResponse")
            .field("status", &self.status)
            .field("encoding", &self.encoding)
            .finish_non_exhaustive()
    }
}

impl StoredResponse {
    pub(super) fn with_artifact(
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<Self, StoredResponseError> {
        Ok(Self::new(status, headers, quoted(BODY_ARTIFACT)?, BodyEncoding::Artifact))
    }

    /// Inlines a small body. Returns `None` if it is not UTF-8.
    pub(super) fn with_text(
        status: StatusCode,
        headers: &HeaderMap,
        bytes: &[u8],
    ) -> Result<Option<Self>, StoredResponseError> {
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(None) };
        if is_json(headers)
            && let Ok(body) = serde_json::from_str::<Box<RawValue>>(text)
        {
            let around = around(text, body.get());
            let answer = Self::new(status, headers, body, BodyEncoding::Json);
            return Ok(Some(Self { around, ..answer }));
        }
        Ok(Some(Self::new(status, headers, quoted(text)?, BodyEncoding::Text)))
    }

    /// Inlines a small or truncated body of any bytes.
    pub(super) fn with_bytes(
        status: StatusCode,
        headers: &HeaderMap,
        bytes: &[u8],
        cut: bool,
    ) -> Result<Self, StoredResponseError> {
        let answer = match Self::with_text(status, headers, bytes)? {
            Some(answer) => answer,
            None => {
                Self::new(status, headers, quoted(&STANDARD.encode(bytes))?, BodyEncoding::Base64)
            }
        };
        Ok(Self { cut, ..answer })
    }

    fn new(
        status: StatusCode,
        headers: &HeaderMap,
        body: Box<RawValue>,
        encoding: BodyEncoding,
    ) -> Self {
        let (status, headers) = (status.as_u16(), headers::to_fields(headers));
        Self { status, headers, body, encoding, around: None, cut: false }
    }

    pub fn status(&self) -> Result<StatusCode, StoredResponseError> {
        StatusCode::from_u16(self.status).map_err(|_| StoredResponseError::Status(self.status))
    }

    pub fn headers(&self) -> Result<HeaderMap, StoredResponseError> {
        Ok(headers::from_fields(&self.headers)?)
    }

    /// Returns the original bytes of the body, or `None` if it is an artifact.
    pub fn bytes(&self) -> Result<Option<Vec<u8>>, StoredResponseError> {
        let text = || {
            serde_json::from_str::<String>(self.body.get()).map_err(|_| StoredResponseError::Body)
        };
        match self.encoding {
            BodyEncoding::Json => {
                let (before, behind) = self.around.clone().unwrap_or_default();
                Ok(Some([before.as_str(), self.body.get(), behind.as_str()].concat().into_bytes()))
            }
            BodyEncoding::Text => Ok(Some(text()?.into_bytes())),
            BodyEncoding::Base64 => {
                STANDARD.decode(text()?).map(Some).map_err(|_| StoredResponseError::Body)
            }
            BodyEncoding::Artifact => Ok(None),
        }
    }
}

/// Returns false for a compressed body.
fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_json = media_type.eq_ignore_ascii_case("application/json")
        || media_type.to_ascii_lowercase().ends_with("+json");
    is_json && !headers.contains_key(CONTENT_ENCODING)
}

fn around(text: &str, json: &str) -> Option<(String, String)> {
    let (before, behind) = text.split_once(json)?;
    let any = !before.is_empty() || !behind.is_empty();
    any.then(|| (before.to_owned(), behind.to_owned()))
}

fn quoted(text: &str) -> Result<Box<RawValue>, StoredResponseError> {
    serde_json::value::to_raw_value(text).map_err(|_| StoredResponseError::Body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn typed(content_type: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))])
    }

    fn kept(content_type: &'static str, bytes: &[u8]) -> StoredResponse {
        let answer =
            StoredResponse::with_bytes(StatusCode::OK, &typed(content_type), bytes, false).unwrap();
        // Stores keep it as text.
        serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap()
    }

    #[test]
    fn json_body_is_stored_verbatim() {
        for text in [
            "{\"n\": 1.50,  \"big\": 123456789012345678901234567890, \"n\": 2}",
            " \r\n[1 ,2]\n",
            "\"\\u00e9\\ud800\"",
            "null",
            "1e999",
        ] {
            for content_type in ["application/json; charset=utf-8", "application/problem+json"] {
                let answer = kept(content_type, text.as_bytes());
                assert_eq!(answer.encoding, BodyEncoding::Json, "{text}");
                assert_eq!(answer.bytes().unwrap().unwrap(), text.as_bytes());
            }
        }
        let answer = kept("application/json", b"[1]");
        let shown = serde_json::to_string(&answer).unwrap();
        let expected = r#"{"status":200,"headers":[["content-type","application/json"]],"body":[1],"encoding":"json"}"#;
        assert_eq!(shown, expected);
    }

    #[test]
    fn invalid_json_body_is_stored_as_text() {
        let deep = "[".repeat(50_000);
        for text in ["{", "", "1 2", "\u{feff}{}", &deep] {
            let answer = kept("application/json", text.as_bytes());
            assert_eq!(answer.encoding, BodyEncoding::Text);
            assert_eq!(answer.bytes().unwrap().unwrap(), text.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn stored_body_round_trips(bytes in any::<Vec<u8>>(), json in any::<bool>()) {
            let answer = kept(if json { "application/json" } else { "image/png" }, &bytes);
            prop_assert_eq!(answer.bytes().unwrap().unwrap(), bytes);
        }
    }
}
