//! `[[proxy]]`: paths whose requests become jobs.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::HeaderName;
use longhaul::job::Name;
use longhaul_kinds::http::headers::is_connection_header;

use super::check::Check;
use super::error::{ConfigError, hint, nearest};
use super::kinds::{KindConfig, KindRunner};
use super::schema::one_of;
use super::table_reader::read_table;
use super::value::{ConfigEntry, Table};
use crate::api::ProxyRoute;

/// `mode`, and whether callers wait for the response.
const MODES: &[(&str, bool)] = &[("async", false), ("sync", true)];

/// First path segments of the server's own routes, including planned ones.
const RESERVED: [&str; 18] = [
    "api",
    "assets",
    "d",
    "docs",
    "favicon.ico",
    "health",
    "healthz",
    "jobs",
    "livez",
    "metrics",
    "openapi.json",
    "problems",
    "readyz",
    "render",
    "robots.txt",
    "style.css",
    "ui",
    "v1",
];

/// Returns the valid routes, and records the errors of the others. `declared` also has the kinds
/// with errors.
pub(super) fn proxies(
    check: &mut Check,
    tables: &[ConfigEntry],
    declared: &Table,
    kinds: &BTreeMap<Name, KindConfig>,
) -> Vec<ProxyRoute> {
    let mut paths = BTreeSet::new();
    let mut routes = Vec::new();
    for (index, entry) in (1..).zip(tables) {
        let key = format!("proxy.{index}");
        let route = read_table(check, &key, entry, |table| {
            table.require(&["path", "kind"], &format!("`{key}`"));
            let path = table.value_with("path", |entry, key| {
                let path = path(entry, key)?;
                let is_new = paths.insert(path.clone());
                let error = || entry.error(key, "another [[proxy]] has this path");
                is_new.then_some(path).ok_or_else(error)
            });
            let kind = table.value_with("kind", |entry, key| kind(entry, key, declared, kinds));
            let sync = table.value("mode", &one_of(MODES)).unwrap_or(false);
            let pass = table.value_with("pass", forwarded_headers).unwrap_or_default();
            Some(ProxyRoute { path: path?, kind: kind??.to_string(), sync, pass })
        });
        routes.extend(route);
    }
    routes
}

fn path(entry: &ConfigEntry, key: &str) -> Result<String, ConfigError> {
    const EXPECTED: &str = "a path such as \"/reports\", of letters, digits, '-', '.', '_' and '~', \
                            without a trailing slash";
    let path = entry.text(key)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~');
    let is_segment = |segment: &str| {
        !segment.is_empty() && segment.chars().all(plain) && !matches!(segment, "." | "..")
    };
    let segments = path.strip_prefix('/').map(|rest| rest.split('/').collect::<Vec<_>>());
    let segments = segments.filter(|all| all.iter().all(|segment| is_segment(segment)));
    let segments = segments.ok_or_else(|| entry.wrong(key, EXPECTED))?;
    if segments.first().is_some_and(|first| RESERVED.contains(first)) {
        return Err(entry.refused(key, "the server itself uses this path; choose another one"));
    }
    Ok(path.to_owned())
}

/// Returns `None` for a kind with errors, because those are recorded already.
fn kind(
    entry: &ConfigEntry,
    key: &str,
    declared: &Table,
    kinds: &BTreeMap<Name, KindConfig>,
) -> Result<Option<Name>, ConfigError> {
    let text = entry.text(key)?;
    let found = kinds.iter().find(|(name, _)| name.as_str() == text);
    match found {
        Some((name, KindConfig { runner: KindRunner::Http(target), .. }))
            if target.target.is_some() =>
        {
            Ok(Some(name.clone()))
        }
        Some(_) => {
            Err(entry.refused(key, "this kind has no endpoint: it needs `http` with a `url`"))
        }
        None if declared.contains_key(text) => Ok(None),
        None => {
            let near = hint(nearest(text, declared.keys().map(String::as_str)));
            Err(entry.refused(key, format!("unknown kind{near}")))
        }
    }
}

fn forwarded_headers(entry: &ConfigEntry, key: &str) -> Result<Vec<HeaderName>, ConfigError> {
    let name = |item: &ConfigEntry| {
        let name = HeaderName::try_from(item.text(key)?);
        let name = name.map_err(|_| item.wrong(key, "a header name"))?;
        // The last one is a Longhaul API key.
        if is_connection_header(&name) || name == "x-api-key" {
            return Err(item.refused(key, "this header is never forwarded"));
        }
        Ok(name)
    };
    entry.list(key)?.iter().map(name).collect()
}
