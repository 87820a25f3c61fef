//! Parsers for settings whose values are more than a number, a duration or a word.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri};
use ipnet::IpNet;

use super::schema::ValueType;
use super::value::ConfigEntry;
use super::{Database, LogFormat, Role};
use crate::api::{HostNames, Origins};
use crate::auth::parse_url;

const NETWORKS: &str = "networks or addresses, such as [\"10.0.0.0/8\", \"::1\"]";
const ORIGINS: &str = "origins as browsers send them, such as [\"https://app.example\"], or \"*\"";

pub(super) const ROLES: &[(&str, Role)] =
    &[("all", Role::All), ("api", Role::Api), ("worker", Role::Worker)];
pub(super) const LOG_FORMATS: &[(&str, LogFormat)] =
    &[("auto", LogFormat::Auto), ("pretty", LogFormat::Pretty), ("json", LogFormat::Json)];
pub(super) const LEVELS: &[(&str, &str)] = &[
    ("error", "error"),
    ("warn", "warn"),
    ("info", "info"),
    ("debug", "debug"),
    ("trace", "trace"),
];

pub(super) fn address() -> ValueType<SocketAddr> {
    let expected = "an IP address and a port, such as \"127.0.0.1:8080\"";
    ValueType::text(expected, |text| text.parse().ok())
}

pub(super) fn optional_address() -> ValueType<Option<SocketAddr>> {
    let expected = "\"\" (disabled) or an IP address and a port, such as \"0.0.0.0:9090\"";
    ValueType::text(expected, |text| match text {
        "" => Some(None),
        text => text.parse().ok().map(Some),
    })
}

pub(super) fn not_empty(expected: &'static str) -> ValueType<String> {
    ValueType::text(expected, |text| Some(text.to_owned()).filter(|text| !text.is_empty()))
}

/// `None` is the default file in the data directory.
pub(super) fn database() -> ValueType<Option<Database>> {
    let expected =
        "\"\" (a file in the data directory), \"sqlite:PATH\", \"postgres://…\" or \"memory\"";
    ValueType::text(expected, |text| match text {
        "" => Some(None),
        text => Database::parse(text).map(Some),
    })
}

/// Discovery appends a path to the issuer, so it cannot have a query.
pub(super) fn issuer() -> ValueType<Option<String>> {
    ValueType::new("\"\" or an https:// URL without a '?'", |entry, key| {
        match optional_url().parse(entry, key)? {
            Some(url) if url.contains('?') => Err(entry.wrong(key, "a URL without a '?'")),
            url => Ok(url),
        }
    })
}

/// Keeps the text unchanged, because issuers are compared byte by byte.
pub(super) fn optional_url() -> ValueType<Option<String>> {
    ValueType::new("\"\" or an https:// URL", |entry, key| match entry.text(key)? {
        "" => Ok(None),
        text => match parse_url(text) {
            Ok(_) => Ok(Some(text.to_owned())),
            Err(reason) => Err(entry.refused(key, reason)),
        },
    })
}

/// Without a slash at the end, because paths are appended.
pub(super) fn base_url() -> ValueType<String> {
    let is_base = |url: url::Url| {
        ["http", "https"].contains(&url.scheme())
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    };
    let expected =
        "\"\" or an http:// or https:// URL without a query, such as \"https://diagrams.example\"";
    ValueType::text(expected, move |text| {
        let is_valid = text.is_empty() || url::Url::parse(text).is_ok_and(is_base);
        is_valid.then(|| text.trim_end_matches('/').to_owned())
    })
}

/// Reads 0 as the number of processors.
pub(super) fn or_processors(count: usize) -> usize {
    match count {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    }
}

pub(super) fn networks() -> ValueType<Vec<IpNet>> {
    items(NETWORKS, |text| {
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse().or_else(|_| address()).ok()
    })
}

pub(super) fn origins() -> ValueType<Origins> {
    items(ORIGINS, |text| {
        HeaderValue::from_str(text).ok().filter(|_| text == "*" || is_origin(text))
    })
}

/// Lower-cased, because host names are compared without case.
pub(super) fn hosts() -> ValueType<HostNames> {
    items("host names without a port, such as [\"jobs.internal\"]", |text| {
        let is_name = text.parse::<Authority>().is_ok_and(|authority| authority.host() == text);
        (is_name && !text.contains('*')).then(|| text.to_ascii_lowercase())
    })
}

/// A list in brackets, or a comma-separated text from the environment.
fn items<T: 'static>(
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T> + 'static,
) -> ValueType<Vec<T>> {
    ValueType::new(expected, move |entry, key| {
        let item =
            |entry: &ConfigEntry, text| parse(text).ok_or_else(|| entry.wrong(key, expected));
        if let Some(text) = entry.as_text() {
            let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
            return texts.map(|text| item(entry, text)).collect();
        }
        entry.list(key)?.iter().map(|entry| item(entry, entry.text(key)?)).collect()
    })
}

/// Accepts a lower-case scheme, host and optional port only, because browsers send nothing else.
fn is_origin(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.authority()) else { return false };
    text == format!("{scheme}://{host}").to_ascii_lowercase() && !host.as_str().contains('@')
}
