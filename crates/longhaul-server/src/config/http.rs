//! The table of a kind that asks an endpoint.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use longhaul_kinds::http::headers::is_connection_header;
use longhaul_kinds::http::{RetryOn, TargetUrl};

use super::check::Check;
use super::error::{ConfigError, hint, nearest};
use super::value::{Entry, Table};
use super::variables::Variables;

/// Keys of the table.
const KEYS: [&str; 5] = ["caller_url", "headers", "method", "retry_on", "url"];

/// An endpoint, and how it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpTarget {
    /// Where; none if callers always say.
    pub target: Option<TargetUrl>,
    /// How, unless a job says otherwise.
    pub method: Method,
    /// What is sent along. All of it is secret, and shows nothing of itself.
    pub headers: HeaderMap,
    /// After which failures it is asked again.
    pub retry_on: RetryOn,
    /// Whether jobs may name another URL, under `egress.allow`.
    pub caller_url: bool,
}

/// Reads `{ url = "…", … }`.
pub(super) fn target(
    check: &mut Check,
    entry: &Entry,
    key: &str,
    variables: &Variables<'_>,
) -> Option<HttpTarget> {
    let table = check.take(entry.table(key))?;
    for (name, unknown) in table.iter().filter(|(name, _)| !KEYS.contains(&name.as_str())) {
        let near = hint(nearest(name, KEYS.into_iter()));
        check.error(&unknown.origin, format!("unknown key `{key}.{name}`{near}"));
    }
    let mut reader = Reader { check, key, table };
    let url = reader.read("url", |entry, key| {
        let url = variables.filled(entry, key)?;
        // Not the value itself: it may have a secret in it.
        let wrong = |why| ConfigError::new(&entry.origin, format!("`{key}`: {why}"));
        TargetUrl::parse(&url).map_err(wrong)
    });
    let method = reader.read("method", |entry, key| {
        let expected = "the name of a method, such as \"POST\"";
        Method::try_from(entry.text(key)?).map_err(|_| entry.wrong(key, expected))
    });
    let headers = reader.read("headers", |entry, key| headers(entry, key, variables));
    let retry_on = reader.read("retry_on", |entry, key| {
        let words = entry.list(key)?.iter().map(|word| word.text(key));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        RetryOn::parse(words)
            .map_err(|why| ConfigError::new(&entry.origin, format!("`{key}`: {why}")))
    });
    let caller_url = reader.read("caller_url", Entry::switch)?.unwrap_or(false);
    let url = url?;
    if url.is_none() && !caller_url {
        check.error(&entry.origin, format!("`{key}` needs `url`, or `caller_url = true`"));
        return None;
    }
    Some(HttpTarget {
        target: url,
        method: method?.unwrap_or(Method::POST),
        headers: headers?.unwrap_or_default(),
        retry_on: retry_on?.unwrap_or_default(),
        caller_url,
    })
}

struct Reader<'a> {
    check: &'a mut Check,
    key: &'a str,
    table: &'a Table,
}

impl Reader<'_> {
    /// None if it is wrong, which `check` has heard of.
    #[expect(clippy::option_option, reason = "none is wrong, some none is not given")]
    fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Entry, &str) -> Result<T, ConfigError>,
    ) -> Option<Option<T>> {
        let Some(entry) = self.table.get(name) else { return Some(None) };
        self.check.take(read(entry, &format!("{}.{name}", self.key))).map(Some)
    }
}

fn headers(entry: &Entry, key: &str, variables: &Variables<'_>) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    for (name, entry) in entry.table(key)? {
        let key = format!("{key}.{name}");
        let wrong = |why| ConfigError::new(&entry.origin, format!("`{key}` {why}"));
        let name = HeaderName::try_from(name).map_err(|_| wrong("is no name of a header"))?;
        if is_connection_header(&name) {
            return Err(wrong("is said by whoever sends the request"));
        }
        let value = HeaderValue::try_from(variables.filled(entry, &key)?);
        let mut value = value.map_err(|_| wrong("has a value that no header can have"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}
