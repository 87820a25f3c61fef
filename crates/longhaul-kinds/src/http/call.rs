//! What a job asks for, from its input. Pure.

use std::collections::BTreeMap;

use longhaul::JobError;
use longhaul::job::Json;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::headers::HeaderField;

/// The only key of an input that says more than a body.
const REQUEST: &str = "$request";
const CONTENT_TYPE: &str = "content-type";

/// A request in a job's input. It shows nothing of itself: what it says is the caller's.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpCall {
    /// Instead of the kind's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Appended to the target's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Appended to the target's query, as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Fields to send along.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderField>,
    /// More of them, sealed for this job alone: see [`super::seal_headers`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
    /// The body, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
    /// The body as bytes of any kind, sealed for this job alone: see [`super::seal_body`].
    #[serde(skip_serializing_if = "Option::is_none", rename = "sealedBody")]
    pub sealed_body: Option<String>,
    /// What tells one sealed body from another: the hex of its SHA-256.
    #[serde(skip_serializing_if = "Option::is_none", rename = "bodyDigest")]
    pub body_digest: Option<String>,
    /// Where to go instead of the target, if the kind lets caller_urls say that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl std::fmt::Debug for HttpCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpCall").finish_non_exhaustive()
    }
}

impl HttpCall {
    /// Reads an input: all of it is the body, and `null` is none, unless its only key is `$request`.
    pub fn of(input: &Json) -> Result<Self, JobError> {
        match described(input) {
            Some(call) => serde_json::from_str(call.get())
                .map_err(|error| bad_input(format_args!("its {REQUEST} cannot be read: {error}"))),
            None => Ok(Self { body: plain_body(input), ..Self::default() }),
        }
    }

    /// As an input.
    pub fn to_input(&self) -> Result<Json, longhaul::job::JsonError> {
        Json::from_value(&BTreeMap::from([(REQUEST, self)]))
    }
}

/// What makes two jobs under one idempotency key the same: what is asked for where, and of what type the body
/// is. Other fields change from one try to the next: dates, traces, what a proxy adds.
pub fn idempotency_fields(input: &Json) -> Json {
    // One that cannot be read is held against another as it is.
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

/// An input that no attempt can do anything with.
pub(super) fn bad_input(why: impl std::fmt::Display) -> JobError {
    JobError::fatal(format_args!("the input does not fit this kind: {why}")).with_code("bad-input")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::from_text(text).unwrap()
    }

    #[test]
    fn any_json_is_the_body() {
        for text in [r#"{"a": 1.50}"#, "[]", "\"x\"", "{}", r#"{"$request": 1, "b": 2}"#] {
            let call = HttpCall::of(&json(text)).unwrap();
            assert_eq!(call.body.unwrap().get(), text);
        }
        assert!(HttpCall::of(&json("null")).unwrap().body.is_none());
    }

    #[test]
    fn only_key_describes_the_request() {
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
    fn fields_other_than_the_type_do_not_count() {
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
