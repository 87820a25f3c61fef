//! `[kinds.NAME.http]`: kinds that send their jobs to an HTTP endpoint.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use longhaul_kinds::http::headers::is_connection_header;
use longhaul_kinds::http::{RetryOn, TargetUrl};

use super::check::Check;
use super::error::ConfigError;
use super::schema::switch;
use super::table_reader::read_table;
use super::value::ConfigEntry;
use super::variables::Variables;

/// Endpoint of a kind and the requests to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpKindConfig {
    /// `None` if every job names its URL.
    pub target: Option<TargetUrl>,
    /// Method of jobs that name none.
    pub method: Method,
    /// Headers of every request. All values are secret and hidden in `Debug` output.
    pub headers: HeaderMap,
    /// Failures after which the request is retried.
    pub retry_on: RetryOn,
    /// True if jobs may name another URL, subject to `egress.allow`.
    pub caller_url: bool,
}

pub(super) fn http_kind(
    check: &mut Check,
    entry: &ConfigEntry,
    key: &str,
    variables: &Variables<'_>,
) -> Option<HttpKindConfig> {
    read_table(check, key, entry, |table| {
        let url = table.optional("url", |entry, key| {
            TargetUrl::parse(&variables.filled(entry, key)?)
                .map_err(|reason| entry.error(key, reason))
        });
        let method = table.value_with("method", |entry, key| {
            let expected = "the name of a method, such as \"POST\"";
            Method::try_from(entry.text(key)?).map_err(|_| entry.wrong(key, expected))
        });
        let headers = table.value_with("headers", |entry, key| headers(entry, key, variables));
        let retry_on = table.value_with("retry_on", |entry, key| {
            let words = entry.list(key)?.iter().map(|word| word.text(key));
            let words = words.collect::<Result<Vec<_>, _>>()?;
            RetryOn::parse(words).map_err(|reason| entry.error(key, reason))
        });
        let caller_url =
            table.optional("caller_url", |entry, key| switch().parse(entry, key))?.unwrap_or(false);
        let url = url?;
        if url.is_none() && !caller_url {
            table.error(format!("`{key}` needs `url`, or `caller_url = true`"));
            return None;
        }
        Some(HttpKindConfig {
            target: url,
            method: method.unwrap_or(Method::POST),
            headers: headers.unwrap_or_default(),
            retry_on: retry_on.unwrap_or_default(),
            caller_url,
        })
    })
}

fn headers(
    entry: &ConfigEntry,
    key: &str,
    variables: &Variables<'_>,
) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    for (name, entry) in entry.table(key)? {
        let key = format!("{key}.{name}");
        let wrong = |reason| ConfigError::new(&entry.origin, format!("`{key}` {reason}"));
        let name = HeaderName::try_from(name).map_err(|_| wrong("is not a valid header name"))?;
        if is_connection_header(&name) {
            return Err(wrong("is set by the server itself"));
        }
        let value = HeaderValue::try_from(variables.filled(entry, &key)?);
        let mut value = value.map_err(|_| wrong("is not a valid header value"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}
