//! `[queues.NAME]`: limits on queues.

use std::collections::BTreeMap;

use longhaul::job::Name;
use longhaul::store::FlowLimit;

use super::check::Check;
use super::schema::{count, rate};
use super::settings::RUNNING_MAX;
use super::table_reader::read_named_tables;
use super::value::Table;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueConfig {
    /// Concurrency and start rate, over all tenants and replicas.
    pub flow: FlowLimit,
    /// Pending jobs of each tenant.
    pub pending_max: Option<u64>,
}

pub(super) fn queues(check: &mut Check, tables: &Table) -> BTreeMap<Name, QueueConfig> {
    read_named_tables(check, "queues", tables, |table| {
        let pending_max = table.value("pending_max", &count(0..=1_000_000_000));
        let running_max = table.value("running_max", &count(1..=RUNNING_MAX));
        let rate = table.value("rate", &rate());
        Some(QueueConfig { flow: FlowLimit { running_max, rate }, pending_max })
    })
}
