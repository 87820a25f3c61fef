//! What a target said, as it is kept: in a job's result, or in a step of a job whose attempt failed. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::headers::{self, HeaderField, InvalidHeader};

/// Bytes of a body that are kept with the answer; larger ones become an artifact.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// What the artifact is called that a body becomes.
pub const BODY_ARTIFACT: &str = "body";

/// An answer, whatever its status. It shows nothing of its fields and body.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredResponse {
    /// Its status.
    pub status: u16,
    /// Its fields, without those that belong to one connection.
    pub headers: Vec<HeaderField>,
    /// The body, as `encoding` says.
    pub body: Box<RawValue>,
    /// How to read `body`.
    pub encoding: BodyEncoding,
    /// White space before and behind a JSON body, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<(String, String)>,
    /// Whether only the beginning of the body was kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// How a body is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyEncoding {
    /// As the JSON that it is, as it was to_fields.
    Json,
    /// As a text in UTF-8.
    Text,
    /// As bytes, of an answer that failed its attempt.
    Base64,
    /// As the artifact that `body` names.
    Artifact,
}

/// What was kept is no answer.
#[derive(Debug, thiserror::Error)]
pub enum StoredResponseError {
    /// A field.
    #[error(transparent)]
    HeaderField(#[from] InvalidHeader),
    /// The status.
    #[error("{0} is no status")]
    Status(u16),
    /// The body.
    #[error("the body cannot be read")]
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
    /// An answer whose body is an artifact.
    pub(super) fn with_artifact(
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<Self, StoredResponseError> {
        Ok(Self::new(status, headers, quoted(BODY_ARTIFACT)?, BodyEncoding::Artifact))
    }

    /// An answer with a small body; none if its bytes are no text.
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

    /// An answer with a small body, or the beginning of one.
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

    /// Its status.
    pub fn status(&self) -> Result<StatusCode, StoredResponseError> {
        StatusCode::from_u16(self.status).map_err(|_| StoredResponseError::Status(self.status))
    }

    /// Its fields.
    pub fn headers(&self) -> Result<HeaderMap, StoredResponseError> {
        Ok(headers::read(&self.headers)?)
    }

    /// The bytes of its body, exactly as they came; none if they are an artifact.
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

/// Bytes that are packed are no JSON yet.
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
        // As both stores keep it: as a text.
        serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap()
    }

    #[test]
    fn json_is_kept_as_it_was_written() {
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
    fn what_only_says_that_it_is_json_is_a_text() {
        let deep = "[".repeat(50_000);
        for text in ["{", "", "1 2", "\u{feff}{}", &deep] {
            let answer = kept("application/json", text.as_bytes());
            assert_eq!(answer.encoding, BodyEncoding::Text);
            assert_eq!(answer.bytes().unwrap().unwrap(), text.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn every_body_comes_back_byte_by_byte(bytes in any::<Vec<u8>>(), json in any::<bool>()) {
            let answer = kept(if json { "application/json" } else { "image/png" }, &bytes);
            prop_assert_eq!(answer.bytes().unwrap().unwrap(), bytes);
        }
    }
}
