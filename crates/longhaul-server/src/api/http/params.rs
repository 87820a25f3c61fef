//! What stands in the path and in the query, read so that every mistake is a problem with a hint.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use longhaul::job::Name;
use longhaul::store::StoreError;
use longhaul::{JobId, Timestamp};

use crate::problem::{Code, Problem};

/// The job's id in the path. What is not an id answers exactly as an unknown one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobPath(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id = Path::<String>::from_request_parts(parts, state).await.ok();
        id.and_then(|Path(text)| text.parse().ok()).map(Self).ok_or(StoreError::NotFound.into())
    }
}

/// An id in the path, whatever it is. What is not even text is the id of nothing.
#[derive(Debug, Clone)]
pub(crate) struct IdPath(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for IdPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let id = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(id.map(|Path(id)| id).unwrap_or_default()))
    }
}

/// The name of a queue in the path.
#[derive(Debug, Clone)]
pub(crate) struct NamePath(pub(crate) Name);

impl<S: Send + Sync> FromRequestParts<S> for NamePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(bad)?;
        Name::new(text).map(Self).map_err(bad)
    }
}

/// The query as pairs, in order. Each handler says which names it knows.
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

/// The bytes that are meant. Reading pairs puts a replacement for what is not UTF-8, and so would
/// look for what nobody asked for.
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
    /// The only parameter that there may be, at most once.
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

/// Takes a parameter that may be given once.
pub(crate) fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Problem> {
    match place.replace(value) {
        Some(_) => Err(twice(name)),
        None => Ok(()),
    }
}

/// A malformed parameter.
pub(crate) fn bad(reason: impl std::fmt::Display) -> Problem {
    Problem::new(Code::BadRequest, reason.to_string())
}

/// A parameter that may be given once was given twice.
pub(crate) fn twice(name: &str) -> Problem {
    bad(format_args!("the parameter {name:?} is given twice"))
}

/// A parameter that the operation does not have. Ignoring a misspelt filter would answer with
/// what nobody asked for.
pub(crate) fn unknown(name: &str, known: &[&str]) -> Problem {
    bad(format_args!("there is no parameter {name:?}{}", hint(name, known)))
}

/// Names the nearest known word if one is near, and all of them.
pub(crate) fn hint(word: &str, known: &[&str]) -> String {
    const NEAR: f64 = 0.85;
    let nearest = known
        .iter()
        .map(|known| (strsim::jaro_winkler(&word.to_lowercase(), &known.to_lowercase()), known))
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    let guess = match nearest {
        Some((likeness, known)) if likeness >= NEAR => format!("; did you mean {known:?}?"),
        Some(_) => ".".to_owned(),
        None => return String::new(),
    };
    format!("{guess} Known: {}", known.join(", "))
}

/// An instant.
pub(crate) fn instant(name: &str, text: &str) -> Result<Timestamp, Problem> {
    // A plus that is not encoded arrives as a space.
    Timestamp::parse(&text.replace(' ', "+"))
        .ok_or_else(|| bad(format_args!("{name} {text:?} is not an RFC 3339 instant")))
}

/// Whole seconds to hold a request.
pub(crate) fn seconds(name: &str, text: &str) -> Result<std::time::Duration, Problem> {
    // What a JSON integer can hold: the document calls it int64.
    let seconds = whole(text).filter(|seconds| i64::try_from(*seconds).is_ok());
    seconds
        .map(std::time::Duration::from_secs)
        .ok_or_else(|| bad(format_args!("{name} must be whole seconds, not {text:?}")))
}

/// A whole number in digits alone. Rust would take a sign as well, which no format of ours has.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        assert_eq!(whole("007"), Some(7));
        for bad in ["", "+7", "-7", " 7", "7.0", "18446744073709551616"] {
            assert_eq!(whole(bad), None, "{bad}");
        }
    }
}
