//! Usage of the reference store: recorded per job and summed up when it ends.

use std::collections::BTreeMap;

use longhaul::job::{JobId, Name, TenantId, Timestamp, Usage, UsageRow};
use longhaul::store::NewBlob;

use super::state::State;

const HOUR_MS: i64 = 60 * 60 * 1_000;
const KEPT_DAYS: i64 = 396;

/// Usage by tenant, hour, kind and API key.
pub(super) type Sums = BTreeMap<(TenantId, i64, Name, Option<String>), Usage>;

/// Uncounted usage of one job.
#[derive(Clone)]
pub(super) struct Meter {
    pub(super) key: Option<String>,
    pub(super) claimed_at: Timestamp,
    /// Includes the job itself and its payload until they are counted.
    pub(super) left: Usage,
    /// Number of steps already counted, or present at the start.
    pub(super) steps: usize,
}

impl Meter {
    pub(super) fn new(key: Option<String>, payload: Option<&NewBlob>, now: Timestamp) -> Self {
        let payload_bytes = payload.map_or(0, |payload| payload.size);
        let left = Usage { jobs: 1, payload_bytes, ..Usage::default() };
        Self { key, claimed_at: now, left, steps: 0 }
    }

    /// Adds the run time of an attempt that ended at `until`.
    pub(super) fn run(&mut self, until: Timestamp) {
        self.left.run_ms += u64::try_from(until.since(self.claimed_at).as_millis()).unwrap();
    }
}

impl State {
    /// Counts the remaining usage of a job, if it has ended.
    pub(super) fn meter(&mut self, id: JobId, now: Timestamp) {
        let row = self.rows.get_mut(&id).expect("it was just changed");
        let job = &row.record.job;
        if !job.status.is_terminal() {
            return;
        }
        row.meter.left.steps = (row.steps.len() - row.meter.steps) as u64;
        row.meter.steps = row.steps.len();
        let hour = now.as_millis() / HOUR_MS * HOUR_MS;
        let key = (job.tenant.clone(), hour, job.kind.clone(), row.meter.key.clone());
        let used = std::mem::take(&mut row.meter.left);
        if used != Usage::default() {
            *self.usage.entry(key).or_default() += used;
        }
    }

    pub(super) fn usage_of(
        &self,
        tenant: &TenantId,
        from: Timestamp,
        to: Timestamp,
    ) -> Vec<UsageRow> {
        let asked = self.usage.iter().filter(|((of, hour, ..), _)| {
            of == tenant && hour + HOUR_MS > from.as_millis() && *hour < to.as_millis()
        });
        let row = |((_, hour, kind, key), usage): (&(_, i64, Name, Option<String>), &Usage)| {
            let (hour, kind, key) = (Timestamp::from_millis(*hour), kind.clone(), key.clone());
            UsageRow { hour, kind, key, usage: *usage }
        };
        asked.map(row).collect()
    }

    pub(super) fn forget_usage(&mut self, now: Timestamp) {
        let oldest = now.as_millis() - KEPT_DAYS * 24 * HOUR_MS;
        self.usage.retain(|(_, hour, ..), _| *hour >= oldest);
    }
}
