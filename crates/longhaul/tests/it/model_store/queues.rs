//! Queue counts of the reference store, computed from each job.

use std::collections::BTreeMap;

use longhaul::job::{Name, Status, TenantId, Timestamp};
use longhaul::store::QueueState;

use super::state::State;

pub(super) fn of(state: &State, tenant: &TenantId, now: Timestamp) -> Vec<QueueState> {
    let empty = |name: &Name, paused| QueueState {
        name: name.clone(),
        paused,
        pending: 0,
        running: 0,
        oldest_due_at: None,
    };
    let paused = state.paused.iter().filter(|(of, _)| of == tenant);
    let mut queues: BTreeMap<Name, QueueState> =
        paused.map(|(_, name)| (name.clone(), empty(name, true))).collect();
    for job in state.rows.values().map(|row| &row.record.job) {
        if &job.tenant != tenant || job.status.is_terminal() {
            continue;
        }
        let queue = queues.entry(job.queue.clone()).or_insert_with(|| empty(&job.queue, false));
        if job.status == Status::Running {
            queue.running += 1;
            continue;
        }
        queue.pending += 1;
        if job.run_at <= now && queue.oldest_due_at.is_none_or(|oldest| job.run_at < oldest) {
            queue.oldest_due_at = Some(job.run_at);
        }
    }
    queues.into_values().collect()
}

/// Returns the number of pending jobs in one queue, or in all.
pub(super) fn pending(state: &State, tenant: &TenantId, queue: Option<&Name>) -> u64 {
    let jobs = state.rows.values().map(|row| &row.record.job);
    let pending = jobs.filter(|job| {
        &job.tenant == tenant
            && job.status == Status::Pending
            && queue.is_none_or(|queue| &job.queue == queue)
    });
    u64::try_from(pending.count()).unwrap()
}
