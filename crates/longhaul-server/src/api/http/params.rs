//! Path and query parameters. Errors name the parameter and suggest a correction.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use longhaul::job::Name;
use longhaul::store::StoreError;
use longhaul::{JobId, TenantId, Timestamp};
use longhaul_client::wire::Instant;
use percent_encoding::percent_decode_str;

use crate::problem::{Code, Problem, Result};

/// A job id in the path. A malformed id gets the same response as an unknown job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobPath(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let id = Path::<String>::from_request_parts(parts, state).await.ok();
        id.and_then(|Path(text)| text.parse().ok()).map(Self).ok_or(StoreError::NotFound.into())
    }
}

/// A job id and the name of an artifact in the path. A malformed one gets the same response as an unknown job.
#[derive(Debug)]
pub(crate) struct ArtifactPath(pub(crate) JobId, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for ArtifactPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await.ok();
        path.and_then(|Path((id, name))| Some(Self(id.parse().ok()?, name)))
            .ok_or(StoreError::NotFound.into())
    }
}

/// A tenant id in the path. A malformed id gets the same response as an unknown tenant.
#[derive(Debug)]
pub(crate) struct TenantPath(pub(crate) TenantId);

impl<S: Send + Sync> FromRequestParts<S> for TenantPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = Path::<String>::from_request_parts(parts, state).await.ok();
        let id = path.and_then(|Path(text)| TenantId::new(text).ok());
        id.map(Self).ok_or_else(|| Problem::new(Code::TenantNotFound, "unknown tenant"))
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

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(bad)?;
        Name::new(text).map(Self).map_err(bad)
    }
}

/// The query as pairs, in order. Each handler rejects names that it does not know.
#[derive(Debug, Default)]
pub(crate) struct Pairs(pub(crate) Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Pairs {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        // Checked here, because parsing replaces invalid UTF-8 and so would look up a value that the
        // client did not send.
        let query = parts.uri.query().unwrap_or_default();
        if percent_decode_str(query).decode_utf8().is_err() {
            return Err(bad("the query is not UTF-8"));
        }
        let Query(pairs) = Query::from_request_parts(parts, state).await.map_err(bad)?;
        Ok(Self(pairs))
    }
}

impl Pairs {
    /// Returns the only allowed parameter, which may be given once.
    pub(crate) fn only(self, known: &str) -> Result<Option<String>> {
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
pub(crate) fn once<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<()> {
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

pub(crate) fn instant(name: &str, text: &str) -> Result<Timestamp> {
    // An unencoded plus arrives as a space.
    Timestamp::parse(&text.replace(' ', "+"))
        .ok_or_else(|| bad(format_args!("{name} {text:?} is not an RFC 3339 instant")))
}

pub(crate) fn body_instant(name: &str, at: Option<&Instant>) -> Result<Option<Timestamp>> {
    let parse = |at: &Instant| {
        let reason =
            || Problem::invalid(format_args!("{name} {:?} is not an RFC 3339 instant", at.0));
        Timestamp::parse(at.as_str()).ok_or_else(reason)
    };
    at.map(parse).transpose()
}

/// Returns the items of a header that is a comma-separated list.
pub(crate) fn items(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|text| text.split(',')).map(str::trim)
}

/// Parses whole seconds.
pub(crate) fn seconds(name: &str, text: &str) -> Result<std::time::Duration> {
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
