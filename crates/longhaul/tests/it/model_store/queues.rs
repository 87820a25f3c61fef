//! Queue counts of the reference store, computed from each job.

use std::collections::BTreeMap;

use longhaul::job::{Name, Status, TenantId, Timestamp};
use longhaul::store::{QueueState, QueueTotal};

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

/// Returns the totals of up to `limit` queues over all tenants.
pub(super) fn totals(state: &State, limit: usize, now: Timestamp) -> Vec<QueueTotal> {
    let empty = |name: &Name| QueueTotal {
        name: name.clone(),
        paused: 0,
        pending: 0,
        running: 0,
        oldest_due_at: None,
    };
    let mut totals: BTreeMap<Name, QueueTotal> = BTreeMap::new();
    for (_, name) in state.paused.iter().filter(|(tenant, _)| !tenant.is_outbox()) {
        totals.entry(name.clone()).or_insert_with(|| empty(name)).paused += 1;
    }
    let jobs = state.rows.values().map(|row| &row.record.job);
    for job in jobs.filter(|job| !job.tenant.is_outbox()) {
        let (pending, running) = match job.status {
            Status::Pending => (1, 0),
            Status::Running => (0, 1),
            Status::Waiting | Status::Completed | Status::Failed | Status::Cancelled => continue,
        };
        let total = totals.entry(job.queue.clone()).or_insert_with(|| empty(&job.queue));
        total.pending += pending;
        total.running += running;
        if pending > 0 && job.run_at <= now {
            let oldest = total.oldest_due_at.into_iter().chain([job.run_at]).min();
            total.oldest_due_at = oldest;
        }
    }
    let mut totals: Vec<QueueTotal> = totals.into_values().collect();
    totals.sort_by_key(|total| std::cmp::Reverse(total.pending + total.running));
    totals.truncate(limit);
    totals
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
