//! The tables that lead paths to kinds.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::HeaderName;
use longhaul::job::Name;
use longhaul_kinds::http::headers::is_connection_header;

use super::check::Check;
use super::error::{ConfigError, hint, nearest};
use super::kinds::{Kind, Run};
use super::value::{Entry, Table};
use crate::api::ProxyRoute;

/// Keys of the table.
const KEYS: [&str; 4] = ["kind", "mode", "pass", "path"];

/// What the server answers itself, by the first part of its path; some of it only later.
const OWN: [&str; 17] = [
    "api",
    "assets",
    "d",
    "docs",
    "favicon.ico",
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

/// All that are right; `check` hears about the others. `declared` has those kinds, too, that are not.
pub(super) fn proxies(
    check: &mut Check,
    tables: &[Entry],
    declared: &Table,
    kinds: &BTreeMap<Name, Kind>,
) -> Vec<ProxyRoute> {
    let mut paths = BTreeSet::new();
    let mut routes = Vec::new();
    for (place, entry) in (1..).zip(tables) {
        let key = format!("proxy.{place}");
        let Some(table) = check.take(entry.table(&key)) else { continue };
        for (name, unknown) in table.iter().filter(|(name, _)| !KEYS.contains(&name.as_str())) {
            let near = hint(nearest(name, KEYS.into_iter()));
            check.error(&unknown.origin, format!("unknown key `{key}.{name}`{near}"));
        }
        let mut read = |name: &str, needed: bool| {
            let found = table.get(name);
            if found.is_none() && needed {
                check.error(&entry.origin, format!("`{key}` needs `{name}`"));
            }
            found.map(|entry| (entry, format!("{key}.{name}")))
        };
        let (path_given, kind_given) = (read("path", true), read("kind", true));
        let (mode, pass) = (read("mode", false), read("pass", false));
        let path = path_given.and_then(|(entry, key)| {
            let path = check.take(path(entry, &key))?;
            if paths.insert(path.clone()) {
                return Some(path);
            }
            check.error(&entry.origin, format!("`{key}`: another [[proxy]] has this path"));
            None
        });
        let kind = kind_given
            .and_then(|(entry, key)| check.take(kind(entry, &key, declared, kinds)).flatten());
        let sync = mode.map_or(Some(false), |(entry, key)| check.take(is_sync(entry, &key)));
        let pass = pass.map_or(Some(Vec::new()), |(entry, key)| check.take(passed(entry, &key)));
        if let (Some(path), Some(kind), Some(sync), Some(pass)) = (path, kind, sync, pass) {
            routes.push(ProxyRoute { path, kind: kind.to_string(), sync, pass });
        }
    }
    routes
}

fn path(entry: &Entry, key: &str) -> Result<String, ConfigError> {
    const EXPECTED: &str = "a path such as \"/reports\", of letters, digits, '-', '.', '_' and '~', \
                            without a slash at its end";
    let path = entry.text(key)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~');
    let is_segment = |segment: &str| {
        !segment.is_empty() && segment.chars().all(plain) && !matches!(segment, "." | "..")
    };
    let segments = path.strip_prefix('/').map(|rest| rest.split('/').collect::<Vec<_>>());
    let segments = segments.filter(|all| all.iter().all(|segment| is_segment(segment)));
    let segments = segments.ok_or_else(|| entry.wrong(key, EXPECTED))?;
    if segments.first().is_some_and(|first| OWN.contains(first)) {
        return Err(entry.refused(key, "this server answers there itself; take another path"));
    }
    Ok(path.to_owned())
}

/// None of a kind that is declared and wrong, which was told already.
fn kind(
    entry: &Entry,
    key: &str,
    declared: &Table,
    kinds: &BTreeMap<Name, Kind>,
) -> Result<Option<Name>, ConfigError> {
    let text = entry.text(key)?;
    let found = kinds.iter().find(|(name, _)| name.as_str() == text);
    match found {
        Some((name, Kind { run: Run::Http(target), .. })) if target.target.is_some() => {
            Ok(Some(name.clone()))
        }
        Some(_) => {
            Err(entry.refused(key, "this kind asks no endpoint: it needs `http` with a `url`"))
        }
        None if declared.contains_key(text) => Ok(None),
        None => {
            let near = hint(nearest(text, declared.keys().map(String::as_str)));
            Err(entry.refused(key, format!("there is no such kind{near}")))
        }
    }
}

fn is_sync(entry: &Entry, key: &str) -> Result<bool, ConfigError> {
    match entry.text(key)? {
        "sync" => Ok(true),
        "async" => Ok(false),
        _ => Err(entry.wrong(key, "\"async\" or \"sync\"")),
    }
}

fn passed(entry: &Entry, key: &str) -> Result<Vec<HeaderName>, ConfigError> {
    let name = |item: &Entry| {
        let name = HeaderName::try_from(item.text(key)?);
        let name = name.map_err(|_| item.wrong(key, "the name of a header"))?;
        // Ours, and nobody else's.
        if is_connection_header(&name) || name == "x-api-key" {
            return Err(item.refused(key, "this header is never passed on"));
        }
        Ok(name)
    };
    entry.list(key)?.iter().map(name).collect()
}
