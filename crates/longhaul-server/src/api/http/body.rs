//! Request bodies: content type, size limit, UTF-8, and JSON errors with their position.

mod duplicate_keys;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod nesting;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use futures_util::StreamExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use longhaul::job::Limits;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::load_shedding::{BodyPermit, LARGE_BODY_BYTES, LoadShedder, without_permit};
use super::params::hint;
use crate::api::AppState;
use crate::problem::{Code, Problem, Result};

/// Largest size of a submission without its input.
const BESIDES_INPUT_BYTES: usize = 64 * 1024;
/// Largest body of any other request.
pub(crate) const SMALL_BYTES_MAX: usize = 64 * 1024;

/// Deepest nesting of a body: half of serde's limit, because the server and command jobs wrap inputs in
/// further objects.
const LEVELS_MAX: usize = 64;
/// Levels that the object and the array of a batch add.
const BATCH_LEVELS: usize = 2;

/// Returns the largest body of one submission.
pub(crate) fn submission_bytes_max(limits: &Limits) -> usize {
    limits.input_bytes_max.saturating_add(BESIDES_INPUT_BYTES)
}

/// Extracts a body that is a JSON object of at most 64 KiB.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &AppState) -> Result<Self> {
        let (parts, body) = request.into_parts();
        object(&json_text(&parts.headers, body, SMALL_BYTES_MAX).await?).map(Self)
    }
}

/// Like [`JsonBody`], for a body that may be missing or null.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<AppState> for OptionalJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &AppState) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts.headers, body, SMALL_BYTES_MAX).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        let text = json_text(&parts.headers, bytes.into(), SMALL_BYTES_MAX).await?;
        if text.trim_ascii() == "null" { Ok(Self(T::default())) } else { object(&text).map(Self) }
    }
}

/// Reads a JSON text of at most `bytes_max`.
pub(crate) async fn json_text(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<String> {
    json_text_within(headers, body, bytes_max, LEVELS_MAX).await
}

/// Like [`json_text`], whatever the content type is: clients of compatibility APIs often send none or a wrong one.
pub(crate) async fn json_text_of_any_type(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<String> {
    let text = text(read(headers, body, bytes_max).await?)?;
    reject_deep(&text)?;
    Ok(text)
}

/// Like [`json_text_of_any_type`], for a body that may be large. The permit is to be kept until the job is stored.
pub(crate) async fn large_json_text_of_any_type(
    shedder: &LoadShedder,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<(String, Option<BodyPermit>)> {
    reject_encoded(headers)?;
    let announced = announced(headers).and_then(|bytes| usize::try_from(bytes).ok());
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large(bytes_max));
    }
    let (bytes, permit) = match small(body, LARGE_BODY_BYTES.min(bytes_max)).await? {
        Ok(bytes) => (bytes, None),
        Err(body) => {
            let permit = shedder.reserve_body(announced.unwrap_or(bytes_max))?;
            (read(headers, body, bytes_max).await?, Some(permit))
        }
    };
    let text = text(bytes)?;
    reject_deep(&text)?;
    Ok((text, permit))
}

/// Like [`json_text`], for a batch: each job may nest as deep as in a single submission.
pub(crate) async fn batch_text(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<String> {
    json_text_within(headers, body, bytes_max, LEVELS_MAX + BATCH_LEVELS).await
}

async fn json_text_within(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    levels_max: usize,
) -> Result<String> {
    if !is_json(headers) {
        let detail = "send the body as JSON, with Content-Type: application/json";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let text = text(read(headers, body, bytes_max).await?)?;
    reject_deeper(&text, levels_max)?;
    Ok(text)
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(given)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else {
        return false;
    };
    let media_type = given.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return true;
    }
    let media_type = media_type.to_ascii_lowercase();
    media_type.starts_with("application/") && media_type.ends_with("+json")
}

/// Reads a body of at most `bytes_max`. Checks the headers first, because reading makes the server send
/// `100 Continue`.
pub(crate) async fn read(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<Bytes> {
    reject_encoded(headers)?;
    if announced(headers).is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(too_large(bytes_max));
    }
    match without_permit(Limited::new(body, bytes_max).collect()).await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Err(error) => Err(ended_early(error)),
    }
}

/// Reads a body of at most `bytes_max`, or returns the larger body unread.
pub(crate) async fn small(body: Body, bytes_max: usize) -> Result<Result<Bytes, Body>> {
    let mut stream = body.into_data_stream();
    let mut begun = Vec::new();
    while let Some(piece) = without_permit(stream.next()).await {
        begun.extend_from_slice(&piece.map_err(ended_early)?);
        if begun.len() > bytes_max {
            let begun = futures_util::stream::iter([Ok(Bytes::from(begun))]);
            return Ok(Err(Body::from_stream(begun.chain(stream))));
        }
    }
    Ok(Ok(begun.into()))
}

pub(crate) fn ended_early(error: impl std::fmt::Display) -> Problem {
    Problem::new(Code::BadRequest, format!("the body ended early: {error}"))
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("the body has more than {bytes_max} bytes");
    Problem::new(Code::PayloadTooLarge, detail)
}

pub(crate) fn reject_encoded(headers: &HeaderMap) -> Result<()> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let detail = "send the body without a Content-Encoding";
    Err(Problem::new(Code::UnsupportedMediaType, detail))
}

pub(crate) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn text(bytes: Bytes) -> Result<String> {
    String::from_utf8(bytes.into()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::new(Code::InvalidJson, format!("the body is not UTF-8 at byte {at}"))
    })
}

/// Parses a JSON object. Invalid JSON is 400; valid JSON of another shape is 422.
pub(crate) fn object<T: DeserializeOwned>(text: &str) -> Result<T> {
    require_object(text)?;
    reject_duplicate_keys(text)?;
    fields(text)
}

/// Rejects a JSON text that nests too deep.
pub(crate) fn reject_deep(text: &str) -> Result<()> {
    reject_deeper(text, LEVELS_MAX)
}

fn reject_deeper(text: &str, levels_max: usize) -> Result<()> {
    if nesting::exceeds(text, levels_max) {
        let detail = format!("arrays and objects may be nested at most {levels_max} levels deep");
        return Err(Problem::new(Code::JsonTooDeep, detail));
    }
    Ok(())
}

/// Rejects objects, at any depth, with duplicate keys, because parsers disagree on which one counts.
pub(crate) fn reject_duplicate_keys(text: &str) -> Result<()> {
    match duplicate_keys::find(text) {
        Some(key) => {
            let detail = format!("an object in the body has the key {key:?} twice");
            Err(Problem::new(Code::InvalidJson, detail))
        }
        None => Ok(()),
    }
}

/// Like [`object`], without the check for duplicate keys, for fields that are parsed one by one later.
pub(crate) fn outer_object<T: DeserializeOwned>(text: &str) -> Result<T> {
    require_object(text)?;
    fields(text)
}

pub(crate) fn require_object(text: &str) -> Result<()> {
    // Serde would also accept an array, with its items as fields.
    if text.trim_ascii_start().starts_with('{') {
        return Ok(());
    }
    Err(Problem::new(Code::InvalidJson, "the body must be a JSON object"))
}

fn fields<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Data if error.to_string().starts_with("duplicate field") => {
            Problem::new(Code::InvalidJson, error.to_string())
        }
        Category::Data => Problem::new(Code::Validation, explain(&error.to_string())),
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::new(Code::InvalidJson, error.to_string())
        }
    })
}

/// Returns serde's message; for an unknown field, suggests the most similar known one.
fn explain(message: &str) -> String {
    let Some((head, known)) = message.split_once(", expected ") else { return message.to_owned() };
    let Some(field) = head.strip_prefix("unknown field `").and_then(|f| f.strip_suffix('`')) else {
        return message.to_owned();
    };
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    format!("unknown field {field:?}{}", hint(field, &known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_client::wire::SubmitRequest;

    fn refusal(text: &str) -> String {
        let problem = object::<SubmitRequest>(text).unwrap_err();
        format!("{} {}", problem.status().as_u16(), problem.detail())
    }

    #[test]
    fn body_errors_name_field_and_position() {
        insta::assert_snapshot!(
            [
                r#"{"kind":"demo","input":{},"maxAttemps":3}"#,
                r#"{"kind":"demo","input":{},"colour":3}"#,
                r#"{"kind":"demo"}"#,
                r#"{"kind":"demo","kind":"demo","input":{}}"#,
                r#"{"kind":"demo","input":{},"priority":"high"}"#,
                r#"{"kind":"demo","input":{},"delay":"soon"}"#,
                r#"{"kind":"demo","input":{}"#,
                r#"{"kind":"demo","input":{},}"#,
                r#"["demo",{}]"#,
                "",
            ]
            .map(refusal)
            .join("\n"),
            @r#"
            422 unknown field "maxAttemps"; did you mean "maxAttempts"? Known: kind, input, queue, priority, runAt, delay, maxAttempts, timeout, labels, retention, webhook
            422 unknown field "colour". Known: kind, input, queue, priority, runAt, delay, maxAttempts, timeout, labels, retention, webhook
            422 missing field `input` at line 1 column 15
            400 an object in the body has the key "kind" twice
            422 invalid type: string "high", expected i32 at line 1 column 43
            422 "soon" is not a duration: write whole numbers with units, for example "15s" or "1h30m" at line 1 column 41
            400 EOF while parsing an object at line 1 column 25
            400 trailing comma at line 1 column 27
            400 the body must be a JSON object
            400 the body must be a JSON object
            "#
        );
    }

    #[test]
    fn json_content_types_are_recognized() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            is_json(&headers)
        };
        for json in ["application/json", "Application/JSON; charset=utf-8", "application/a+json"] {
            assert!(of(json), "{json}");
        }
        for other in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
            assert!(!of(other), "{other}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
