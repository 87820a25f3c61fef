//! Request in a job's input. Pure.

use std::collections::BTreeMap;

use longhaul::JobError;
use longhaul::job::Json;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::headers::HeaderField;

/// Only key of an input that specifies more than a body.
const REQUEST: &str = "$request";
const CONTENT_TYPE: &str = "content-type";

/// Request in a job's input. Its `Debug` output is empty, because the content belongs to the caller.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpCall {
    /// Defaults to the method of the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Appended to the target's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Appended to the target's query verbatim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderField>,
    /// More headers, [sealed](super::seal_headers) for this job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
    /// Body of any bytes, [sealed](super::seal_body) for this job.
    #[serde(skip_serializing_if = "Option::is_none", rename = "sealedBody")]
    pub sealed_body: Option<String>,
    /// SHA-256 of the sealed body in hex, because sealing makes equal bodies differ.
    #[serde(skip_serializing_if = "Option::is_none", rename = "bodyDigest")]
    pub body_digest: Option<String>,
    /// URL in place of the target, if the kind allows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl std::fmt::Debug for HttpCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpCall").finish_non_exhaustive()
    }
}

impl HttpCall {
    /// Parses an input: a `$request` object, or else a body (`null` is none).
    pub fn of(input: &Json) -> Result<Self, JobError> {
        match described(input) {
            Some(call) => serde_json::from_str(call.get())
                .map_err(|error| bad_input(format_args!("{REQUEST} is invalid: {error}"))),
            None => Ok(Self { body: plain_body(input), ..Self::default() }),
        }
    }

    pub fn to_input(&self) -> Result<Json, longhaul::job::JsonError> {
        Json::from_value(&BTreeMap::from([(REQUEST, self)]))
    }
}

/// Returns the part of an input that must match under one idempotency key: the request with its content type.
/// Other headers, such as dates and trace ids, differ between retries of one client.
pub fn idempotency_fields(input: &Json) -> Json {
    // An invalid input is compared as a whole.
    let call = described(input).and_then(|call| serde_json::from_str::<HttpCall>(call.get()).ok());
    let Some(mut call) = call else { return input.clone() };
    (call.sealed, call.sealed_body) = (None, None);
    call.headers.retain(|HeaderField(name, _)| name.eq_ignore_ascii_case(CONTENT_TYPE));
    call.to_input().unwrap_or_else(|_| input.clone())
}

fn described(input: &Json) -> Option<Box<RawValue>> {
    let mut object: BTreeMap<String, Box<RawValue>> = input.to().ok()?;
    if object.len() == 1 { object.remove(REQUEST) } else { None }
}

fn plain_body(input: &Json) -> Option<Box<RawValue>> {
    if input.as_str() == "null" {
        return None;
    }
    input.to().ok()
}

pub(super) fn bad_input(why: impl std::fmt::Display) -> JobError {
    JobError::fatal(format_args!("invalid input: {why}")).with_code("bad-input")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::from_text(text).unwrap()
    }

    #[test]
    fn plain_input_is_the_request_body() {
        for text in [r#"{"a": 1.50}"#, "[]", "\"x\"", "{}", r#"{"$request": 1, "b": 2}"#] {
            let call = HttpCall::of(&json(text)).unwrap();
            assert_eq!(call.body.unwrap().get(), text);
        }
        assert!(HttpCall::of(&json("null")).unwrap().body.is_none());
    }

    #[test]
    fn request_key_specifies_the_request() {
        let text = r#"{"$request": {"method": "PUT", "path": "/7", "query": "a=1",
            "headers": [["x-a", "1"], ["x-a", "2"]], "body": {"n": 1e2}}}"#;
        let call = HttpCall::of(&json(text)).unwrap();
        assert_eq!(call.method.as_deref(), Some("PUT"));
        assert_eq!(call.headers.len(), 2);
        assert_eq!(call.body.unwrap().get(), r#"{"n": 1e2}"#);
        for bad in [r#"{"$request": {"verb": "PUT"}}"#, r#"{"$request": 7}"#] {
            assert_eq!(HttpCall::of(&json(bad)).unwrap_err().code, "bad-input");
        }
    }

    #[test]
    fn idempotency_ignores_headers_except_the_content_type() {
        let of = |headers: &str, sealed: &str| {
            let secret = format!(r#""sealed": "{sealed}", "sealedBody": "{sealed}""#);
            let text = format!(
                r#"{{"$request": {{"path": "/7", "headers": {headers}, {secret}, "bodyDigest": "7f"}}}}"#
            );
            idempotency_fields(&json(&text)).as_str().to_owned()
        };
        let one = of(r#"[["date", "a"], ["Content-Type", "text/plain"]]"#, "x");
        assert_eq!(one, of(r#"[["Content-Type", "text/plain"], ["trace", "b"]]"#, "y"));
        assert_ne!(one, of(r#"[["Content-Type", "text/html"]]"#, "x"));
        assert!(one.contains("7f"), "the body counts");
        assert_eq!(idempotency_fields(&json(r#"{"a":1}"#)).as_str(), r#"{"a":1}"#);
    }
}
