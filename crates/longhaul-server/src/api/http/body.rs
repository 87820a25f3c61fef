//! Reading bodies: the right type, within a limit, in UTF-8, and JSON that says where it is wrong.

mod duplicate_keys;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod nesting;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use futures_util::StreamExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use longhaul::job::Limits;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::load_shedding::without_permit;
use super::params::hint;
use crate::problem::{Code, Problem};

/// What a submission may have besides its input.
const BESIDES_INPUT_BYTES: usize = 64 * 1024;
/// What the body of any other request may have.
pub(crate) const SMALL_BYTES_MAX: usize = 64 * 1024;

/// How deep a body may nest: half of what serde reads, which leaves room for what we and the programs
/// of jobs put around an input.
const LEVELS_MAX: usize = 64;
/// The list and the object around the jobs of a batch.
const BATCH_LEVELS: usize = 2;

/// How large the body of one submission may be.
pub(crate) fn submission_bytes_max(limits: &Limits) -> usize {
    limits.input_bytes_max.saturating_add(BESIDES_INPUT_BYTES)
}

/// Reads a JSON text of at most `bytes_max`.
pub(crate) async fn json_text(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<String, Problem> {
    json_text_within(headers, body, bytes_max, LEVELS_MAX).await
}

/// As [`json_text`], for many jobs: each may nest as deep as it may alone.
pub(crate) async fn batch_text(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<String, Problem> {
    json_text_within(headers, body, bytes_max, LEVELS_MAX + BATCH_LEVELS).await
}

async fn json_text_within(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    levels_max: usize,
) -> Result<String, Problem> {
    if !is_json(headers) {
        let detail = "send the body as JSON, with Content-Type: application/json";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let text = text(read(headers, body, bytes_max).await?)?;
    refuse_deeper(&text, levels_max)?;
    Ok(text)
}

/// As [`json_text`], where the body may be left out altogether, or be null.
pub(crate) async fn optional_json_text(
    headers: &HeaderMap,
    body: Body,
) -> Result<Option<String>, Problem> {
    let bytes = read(headers, body, SMALL_BYTES_MAX).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = json_text(headers, bytes.into(), SMALL_BYTES_MAX).await?;
    Ok(Some(text).filter(|text| text.trim_ascii() != "null"))
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(given)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else {
        return false;
    };
    let media_type = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type == "application/json"
        || (media_type.starts_with("application/") && media_type.ends_with("+json"))
}

/// Refuses what it can by the head alone: to read is to tell a peer that waits for `100 Continue`
/// to go on.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    if !is_plain(headers) {
        let detail = "send the body as it is, without a Content-Encoding";
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    if announced(headers).is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(too_large(bytes_max));
    }
    match without_permit(Limited::new(body, bytes_max).collect()).await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(bytes_max)),
        Err(error) => Err(broke_off(error)),
    }
}

/// All of a body that has no more than so many bytes, or the body as it was.
pub(crate) async fn small(body: Body, bytes_max: usize) -> Result<Result<Bytes, Body>, Problem> {
    let mut stream = body.into_data_stream();
    let mut begun = Vec::new();
    while let Some(piece) = without_permit(stream.next()).await {
        begun.extend_from_slice(&piece.map_err(broke_off)?);
        if begun.len() > bytes_max {
            let begun = futures_util::stream::iter([Ok(Bytes::from(begun))]);
            return Ok(Err(Body::from_stream(begun.chain(stream))));
        }
    }
    Ok(Ok(begun.into()))
}

fn broke_off(error: impl std::fmt::Display) -> Problem {
    Problem::new(Code::BadRequest, format!("the body broke off: {error}"))
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("the body has more than {bytes_max} bytes");
    Problem::new(Code::PayloadTooLarge, detail)
}

pub(crate) fn is_plain(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

pub(crate) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn text(bytes: Bytes) -> Result<String, Problem> {
    String::from_utf8(bytes.into()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::new(Code::InvalidJson, format!("the body is not UTF-8 at byte {at}"))
    })
}

/// Reads a JSON object. What is not JSON is 400; what is JSON and does not fit is 422.
pub(crate) fn object<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    refuse_other_than_object(text)?;
    refuse_doubled_keys(text)?;
    fields(text)
}

/// Refuses what nests deeper than a body may.
pub(crate) fn refuse_deep(text: &str) -> Result<(), Problem> {
    refuse_deeper(text, LEVELS_MAX)
}

fn refuse_deeper(text: &str, levels_max: usize) -> Result<(), Problem> {
    if nesting::nests_deeper(text, levels_max) {
        let detail = format!("arrays and objects may be nested {levels_max} deep, and no deeper");
        return Err(Problem::new(Code::JsonTooDeep, detail));
    }
    Ok(())
}

/// Refuses an object, at any depth, that has a key twice: which one counts is anybody's guess.
pub(crate) fn refuse_doubled_keys(text: &str) -> Result<(), Problem> {
    match duplicate_keys::doubled_key(text) {
        Some(key) => {
            let detail = format!("an object in the body has the key {key:?} twice");
            Err(Problem::new(Code::InvalidJson, detail))
        }
        None => Ok(()),
    }
}

/// As [`object`], for one whose parts are looked at one by one later.
pub(crate) fn outer_object<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    refuse_other_than_object(text)?;
    fields(text)
}

fn refuse_other_than_object(text: &str) -> Result<(), Problem> {
    // Serde would also take an array, its items as fields in their order.
    if text.trim_ascii_start().starts_with('{') {
        return Ok(());
    }
    Err(Problem::new(Code::InvalidJson, "the body must be a JSON object"))
}

fn fields<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
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

/// Serde's words, and for an unknown field the known one that is nearest.
fn explain(message: &str) -> String {
    let Some((head, known)) = message.split_once(", expected ") else { return message.to_owned() };
    let Some(field) = head.strip_prefix("unknown field `").and_then(|f| f.strip_suffix('`')) else {
        return message.to_owned();
    };
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    format!("there is no field {field:?}{}", hint(field, &known))
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
    fn mistakes_are_named_with_their_place() {
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
            422 there is no field "maxAttemps"; did you mean "maxAttempts"? Known: kind, input, queue, priority, runAt, delay, maxAttempts, timeout, labels, retention, webhook
            422 there is no field "colour". Known: kind, input, queue, priority, runAt, delay, maxAttempts, timeout, labels, retention, webhook
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
    fn every_json_type_is_taken_and_nothing_else() {
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
