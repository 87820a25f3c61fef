//! Parsers for settings whose values are more than a number, a duration or a word.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderValue, Uri};
use ipnet::IpNet;

use super::error::ConfigError;
use super::schema::{Count, Parse as _};
use super::value::Entry;
use super::{Database, LogFormat, PostgresUrl, Role};
use crate::api::{HostNames, Origins};
use crate::auth::parse_url;
use crate::listen::TrustedProxies;
use longhaul_net::egress::Policy;

pub(super) const ADDRESS: &str = "an IP address and a port, such as \"127.0.0.1:8080\"";
pub(super) const OPTIONAL_ADDRESS: &str =
    "\"\" (disabled) or an IP address and a port, such as \"0.0.0.0:9090\"";
pub(super) const DATABASE: &str =
    "\"\" (a file in the data directory), \"sqlite:PATH\", \"postgres://…\" or \"memory\"";
pub(super) const NETWORKS: &str = "networks or addresses, such as [\"10.0.0.0/8\", \"::1\"]";
pub(super) const ORIGINS: &str =
    "origins as browsers send them, such as [\"https://app.example\"], or \"*\"";
pub(super) const BASE_URL: &str =
    "\"\" or an http:// or https:// URL without a query, such as \"https://diagrams.example\"";
pub(super) const HOSTS: &str = "host names without a port, such as [\"jobs.internal\"]";

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

pub(super) fn listen(entry: &Entry, key: &str) -> Result<SocketAddr, ConfigError> {
    entry.text(key)?.parse().map_err(|_| entry.wrong(key, ADDRESS))
}

pub(super) fn optional_address(
    entry: &Entry,
    key: &str,
) -> Result<Option<SocketAddr>, ConfigError> {
    match entry.text(key)? {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| entry.wrong(key, OPTIONAL_ADDRESS)),
    }
}

pub(super) fn path(entry: &Entry, key: &str) -> Result<String, ConfigError> {
    match entry.text(key)? {
        "" => Err(entry.wrong(key, "a path")),
        text => Ok(text.to_owned()),
    }
}

/// `None` is the default file in the data directory.
pub(super) fn database(entry: &Entry, key: &str) -> Result<Option<Database>, ConfigError> {
    match entry.text(key)? {
        "" => Ok(None),
        "memory" => Ok(Some(Database::Memory)),
        url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok(Some(Database::Postgres(PostgresUrl::new(url))))
        }
        text => match text.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() => Ok(Some(Database::Sqlite(path.into()))),
            Some(_) | None => Err(entry.wrong(key, DATABASE)),
        },
    }
}

/// Discovery appends a path to the issuer, so it cannot have a query.
pub(super) fn issuer(entry: &Entry, key: &str) -> Result<Option<String>, ConfigError> {
    match optional_url(entry, key)? {
        Some(url) if url.contains('?') => Err(entry.wrong(key, "a URL without a '?'")),
        url => Ok(url),
    }
}

/// Keeps the text unchanged, because issuers are compared byte by byte.
pub(super) fn optional_url(entry: &Entry, key: &str) -> Result<Option<String>, ConfigError> {
    match entry.text(key)? {
        "" => Ok(None),
        text => match parse_url(text) {
            Ok(_) => Ok(Some(text.to_owned())),
            Err(reason) => Err(entry.refused(key, reason)),
        },
    }
}

/// Without a slash at the end, because paths are appended.
pub(super) fn base_url(entry: &Entry, key: &str) -> Result<String, ConfigError> {
    let text = entry.text(key)?;
    let is_base = |url: url::Url| {
        ["http", "https"].contains(&url.scheme())
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    };
    if text.is_empty() || url::Url::parse(text).is_ok_and(is_base) {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(entry.wrong(key, BASE_URL))
}

pub(super) fn claim(entry: &Entry, key: &str) -> Result<String, ConfigError> {
    match entry.text(key)? {
        "" => Err(entry.wrong(key, "the name of a claim")),
        text => Ok(text.to_owned()),
    }
}

/// Reads 0 as the number of processors.
pub(super) fn render_workers(entry: &Entry, key: &str) -> Result<usize, ConfigError> {
    match Count(0..=1_000).parse(entry, key)? {
        0 => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        workers => Ok(workers),
    }
}

pub(super) fn proxies(entry: &Entry, key: &str) -> Result<TrustedProxies, ConfigError> {
    networks(entry, key).map(TrustedProxies::new)
}

pub(super) fn egress(entry: &Entry, key: &str) -> Result<Policy, ConfigError> {
    networks(entry, key).map(Policy::new)
}

fn networks(entry: &Entry, key: &str) -> Result<Vec<IpNet>, ConfigError> {
    let network = |(item, text): (Entry, String)| {
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse().or_else(|_| address()).map_err(|_| item.wrong(key, NETWORKS))
    };
    items(entry, key)?.into_iter().map(network).collect()
}

pub(super) fn origins(entry: &Entry, key: &str) -> Result<Origins, ConfigError> {
    let origin = |(item, text): (Entry, String)| {
        let value = HeaderValue::from_str(&text).ok().filter(|_| text == "*" || is_origin(&text));
        value.ok_or_else(|| item.wrong(key, ORIGINS))
    };
    items(entry, key)?.into_iter().map(origin).collect()
}

/// Lower-cased, because host names are compared without case.
pub(super) fn hosts(entry: &Entry, key: &str) -> Result<HostNames, ConfigError> {
    let host = |(item, text): (Entry, String)| {
        let name = text.to_ascii_lowercase();
        let is_name = text.parse::<Authority>().is_ok_and(|authority| authority.host() == text);
        if is_name && !text.contains('*') { Ok(name) } else { Err(item.wrong(key, HOSTS)) }
    };
    items(entry, key)?.into_iter().map(host).collect()
}

/// Items of a list in brackets, or of a comma-separated text from the environment.
fn items(entry: &Entry, key: &str) -> Result<Vec<(Entry, String)>, ConfigError> {
    if let Ok(text) = entry.text(key) {
        let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        return Ok(texts.map(|text| (entry.clone(), text.to_owned())).collect());
    }
    let item = |item: &Entry| Ok((item.clone(), item.text(key)?.to_owned()));
    entry.list(key)?.iter().map(item).collect()
}

/// Accepts a lower-case scheme, host and optional port only, because browsers send nothing else.
fn is_origin(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.authority()) else { return false };
    text == format!("{scheme}://{host}").to_ascii_lowercase() && !host.as_str().contains('@')
}
