//! The tables that limit queues.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use longhaul::job::Name;
use longhaul::store::FlowLimit;

use super::check::{Check, RUNNING_MAX};
use super::error::{ConfigError, hint, nearest};
use super::value::{Entry, Table};

/// Keys of a queue's table.
const KEYS: [&str; 3] = ["pending_max", "rate", "running_max"];
/// How many jobs a queue may be allowed to hold for each tenant.
const PENDING_MAX: RangeInclusive<u32> = 0..=1_000_000_000;

/// What a queue is held to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueConfig {
    /// What runs of it, over all tenants.
    pub flow: FlowLimit,
    /// How many jobs of each tenant may wait in it.
    pub pending_max: Option<u64>,
}

/// All queues that are right; `check` hears about the others.
pub(super) fn queues(check: &mut Check, tables: &Table) -> BTreeMap<Name, QueueConfig> {
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

fn limit(check: &mut Check, key: &str, table: &Table) -> QueueConfig {
    let mut limit = QueueConfig::default();
    for (name, entry) in table {
        let inner = format!("{key}.{name}");
        match name.as_str() {
            "pending_max" => {
                limit.pending_max = check.take(entry.count(&inner, PENDING_MAX)).map(u64::from);
            }
            "running_max" => limit.flow.running_max = check.take(entry.count(&inner, RUNNING_MAX)),
            "rate" => limit.flow.rate = check.take(entry.rate(&inner)),
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
