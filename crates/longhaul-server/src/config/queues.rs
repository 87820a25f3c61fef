//! The tables that limit queues.

use std::collections::BTreeMap;

use longhaul::job::Name;
use longhaul::store::FlowLimit;

use super::check::{Check, RUNNING_MAX};
use super::error::{ConfigError, hint, nearest};
use super::value::{Entry, Table};

/// Keys of a queue's table.
const KEYS: [&str; 2] = ["rate", "running_max"];

/// All queues that are right; `check` hears about the others.
pub(super) fn queues(check: &mut Check, tables: &Table) -> BTreeMap<Name, FlowLimit> {
    let mut queues = BTreeMap::new();
    for (name, entry) in tables {
        let key = format!("queues.{name}");
        let wrong = |why| ConfigError::new(&entry.origin, format!("`{key}`: {why}"));
        let valid = check.take(Name::new(name).map_err(wrong));
        let limit = check.take(entry.table(&key)).map(|table| limit(check, &key, table));
        queues.extend(valid.zip(limit));
    }
    queues
}

fn limit(check: &mut Check, key: &str, table: &Table) -> FlowLimit {
    let mut limit = FlowLimit::default();
    for (name, entry) in table {
        let inner = format!("{key}.{name}");
        match name.as_str() {
            "running_max" => limit.running_max = check.take(entry.count(&inner, RUNNING_MAX)),
            "rate" => limit.rate = check.take(entry.rate(&inner)),
            _ => check.error(&entry.origin, unknown(&inner, name)),
        }
    }
    limit
}

fn unknown(key: &str, name: &str) -> String {
    format!("unknown key `{key}`{}", hint(nearest(name, KEYS.into_iter())))
}

/// A tenant's rate; empty for none.
pub(super) fn opt_rate(
    entry: &Entry,
    key: &str,
) -> Result<Option<longhaul::job::Rate>, ConfigError> {
    match entry.text(key) {
        Ok("") => Ok(None),
        Ok(_) | Err(_) => entry.rate(key).map(Some),
    }
}
