//! Path and query parameters. Errors name the parameter and suggest a correction.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use longhaul::job::Name;
use longhaul::store::StoreError;
use longhaul::{JobId, Timestamp};

use crate::problem::{Code, Problem};

/// A job id in the path. A malformed id gets the same response as an unknown job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobPath(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id = Path::<String>::from_request_parts(parts, state).await.ok();
        id.and_then(|Path(text)| text.parse().ok()).map(Self).ok_or(StoreError::NotFound.into())
    }
}

/// Any id in the path. Empty if it is not UTF-8, which no id is.
#[derive(Debug, Clone)]
pub(crate) struct IdPath(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for IdPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let id = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(id.map(|Path(id)| id).unwrap_or_default()))
    }
}

/// A queue name in the path.
#[derive(Debug, Clone)]
pub(crate) struct NamePath(pub(crate) Name);

impl<S: Send + Sync> FromRequestParts<S> for NamePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(bad)?;
        Name::new(text).map(Self).map_err(bad)
    }
}

/// The query as pairs, in order. Each handler rejects names that it does not know.
#[derive(Debug, Default)]
pub(crate) struct Pairs(pub(crate) Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Pairs {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        if std::str::from_utf8(&percent_decoded(query)).is_err() {
            return Err(bad("the query is not UTF-8"));
        }
        let Query(pairs) = Query::from_request_parts(parts, state).await.map_err(bad)?;
        Ok(Self(pairs))
    }
}

/// Decodes a query string to bytes. Parsing it as pairs would replace invalid UTF-8, and so look up a value
/// that the client did not send.
pub(crate) fn percent_decoded(query: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(query.len());
    let mut rest = query.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = behind.first_chunk::<2>().filter(|_| *first == b'%');
        let escaped = escaped.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = behind.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    bytes
}

impl Pairs {
    /// Returns the only allowed parameter, which may be given once.
    pub(crate) fn only(self, known: &str) -> Result<Option<String>, Problem> {
        let mut found = None;
        for (name, value) in self.0 {
            if name != known {
                return Err(unknown(&name, &[known]));
            }
            if found.replace(value).is_some() {
                return Err(twice(known));
            }
        }
        Ok(found)
    }
}

/// Stores a parameter that may be given once.
pub(crate) fn once<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<(), Problem> {
    match slot.replace(value) {
        Some(_) => Err(twice(name)),
        None => Ok(()),
    }
}

pub(crate) fn bad(reason: impl std::fmt::Display) -> Problem {
    Problem::new(Code::BadRequest, reason.to_string())
}

pub(crate) fn twice(name: &str) -> Problem {
    bad(format_args!("parameter {name:?} is repeated"))
}

/// Rejects an unknown parameter, because ignoring a misspelt filter would return the wrong jobs.
pub(crate) fn unknown(name: &str, known: &[&str]) -> Problem {
    bad(format_args!("unknown parameter {name:?}{}", hint(name, known)))
}

/// Suggests the most similar known word, and lists all.
pub(crate) fn hint(word: &str, known: &[&str]) -> String {
    const SIMILARITY_MIN: f64 = 0.85;
    let nearest = known
        .iter()
        .map(|known| (strsim::jaro_winkler(&word.to_lowercase(), &known.to_lowercase()), known))
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    let guess = match nearest {
        Some((similarity, known)) if similarity >= SIMILARITY_MIN => {
            format!("; did you mean {known:?}?")
        }
        Some(_) => ".".to_owned(),
        None => return String::new(),
    };
    format!("{guess} Known: {}", known.join(", "))
}

pub(crate) fn instant(name: &str, text: &str) -> Result<Timestamp, Problem> {
    // An unencoded plus arrives as a space.
    Timestamp::parse(&text.replace(' ', "+"))
        .ok_or_else(|| bad(format_args!("{name} {text:?} is not an RFC 3339 instant")))
}

/// Parses whole seconds.
pub(crate) fn seconds(name: &str, text: &str) -> Result<std::time::Duration, Problem> {
    // The OpenAPI document declares int64.
    let seconds = whole(text).filter(|seconds| i64::try_from(*seconds).is_ok());
    seconds
        .map(std::time::Duration::from_secs)
        .ok_or_else(|| bad(format_args!("{name} must be whole seconds, not {text:?}")))
}

/// Parses decimal digits. Unlike Rust's parser, rejects a sign.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_digits_only() {
        assert_eq!(whole("007"), Some(7));
        for bad in ["", "+7", "-7", " 7", "7.0", "18446744073709551616"] {
            assert_eq!(whole(bad), None, "{bad}");
        }
    }
}
