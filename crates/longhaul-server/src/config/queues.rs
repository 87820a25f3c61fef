//! `[queues.NAME]`: limits on queues.

use std::collections::BTreeMap;

use longhaul::job::Name;
use longhaul::store::FlowLimit;

use super::check::Check;
use super::error::ConfigError;
use super::schema::{Count, RatePer};
use super::settings::RUNNING_MAX;
use super::table_reader::TableReader;
use super::value::Table;

/// Limits of one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueConfig {
    /// Concurrency and start rate, over all tenants and replicas.
    pub flow: FlowLimit,
    /// Pending jobs of each tenant.
    pub pending_max: Option<u64>,
}

/// Returns the valid queues, and records the errors of the others.
pub(super) fn queues(check: &mut Check, tables: &Table) -> BTreeMap<Name, QueueConfig> {
    let mut queues = BTreeMap::new();
    for (name, entry) in tables {
        let key = format!("queues.{name}");
        let wrong = |reason| ConfigError::new(&entry.origin, format!("`{key}`: {reason}"));
        let name = check.take(Name::new(name).map_err(wrong));
        let known = ["pending_max", "rate", "running_max"];
        let limits = TableReader::new(check, &key, entry, &known).map(|mut table| QueueConfig {
            pending_max: table.value("pending_max", &Count(0..=1_000_000_000)),
            flow: FlowLimit {
                running_max: table.value("running_max", &Count(1..=RUNNING_MAX)),
                rate: table.value("rate", &RatePer),
            },
        });
        queues.extend(name.zip(limits));
    }
    queues
}
