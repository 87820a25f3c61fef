//! Ordering: first attempts of a job's deliveries to one endpoint follow the order of the events.
//!
//! A delivery looks for older ones without an attempt. If one is being sent by this process, it waits, because that
//! takes milliseconds; otherwise it is snoozed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul::job::{ENDPOINT_LABEL, Job, JobId, Status, delivered_version};
use longhaul::store::StoreError;
use longhaul::{Clock, Ctx, JobError};
use tokio::sync::watch;

/// Older deliveries that are checked. A job does not have more pending ones.
const LOOK_BACK: usize = 200;
/// Largest clock difference of replicas, which follow the database's clock.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(10);
/// Longest wait for an older delivery, which occupies a worker slot.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Shortest and longest snooze behind an older delivery; in between, a quarter of its age.
const SNOOZE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(15));

/// Deliveries that are remembered as attempted until the store has recorded it, which takes milliseconds.
const ATTEMPTED_MAX: usize = 10_000;

/// Deliveries that this process is sending. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct DeliveryOrder(
    /// A std mutex: locked for a map access, never across an await.
    Arc<Mutex<LocalState>>,
);

#[derive(Debug, Default)]
struct LocalState {
    in_flight: HashMap<JobId, watch::Receiver<()>>,
    attempted: HashSet<JobId>,
    /// The same ids, oldest first.
    attempted_in_order: VecDeque<JobId>,
}

/// A delivery in flight. Dropping it wakes the deliveries behind it.
#[derive(Debug)]
pub(super) struct InFlightDelivery {
    order: DeliveryOrder,
    id: JobId,
    _ends: watch::Sender<()>,
}

/// Decision whether a delivery may be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    /// An older delivery must be attempted first.
    Later(Duration),
    /// The endpoint responded 410 to an older delivery of this job.
    Unwanted,
}

/// Error code of an attempt with a 410 response.
pub(super) const GONE: &str = "gone";

impl DeliveryOrder {
    /// Registers a delivery that is about to be sent.
    pub(super) fn begin(&self, id: JobId) -> InFlightDelivery {
        let (sender, receiver) = watch::channel(());
        self.lock().in_flight.insert(id, receiver);
        InFlightDelivery { order: self.clone(), id, _ends: sender }
    }

    /// Decides whether a delivery without an attempt may be sent.
    pub(super) async fn turn(&self, ctx: &Ctx, clock: &Clock) -> Result<Turn, StoreError> {
        let delivery = ctx.job();
        let until = clock.now().after(WAIT_MAX);
        loop {
            let older = older(ctx).await?;
            let mut same = older.iter().filter(|other| is_same_endpoint(delivery, other));
            if same.clone().any(is_unwanted) {
                return Ok(Turn::Unwanted);
            }
            let Some(before) =
                same.find(|other| is_unattempted(other) && !self.was_attempted_here(other))
            else {
                return Ok(Turn::Now);
            };
            let now = clock.now();
            let age = now.since(delivery.created_at);
            // Not before the older one is due.
            let due_in = before.run_at.since(now);
            let later = Turn::Later((age / 4).clamp(SNOOZE.0, SNOOZE.1).max(due_in + SNOOZE.0));
            let here = self.lock().in_flight.get(&before.id).cloned();
            let Some(mut here) = here else { return Ok(later) };
            tokio::select! {
                // Ends when the sender is dropped.
                _ = here.changed() => {}
                () = clock.sleep_until(until) => return Ok(later),
            }
        }
    }

    fn was_attempted_here(&self, delivery: &Job) -> bool {
        self.lock().attempted.contains(&delivery.id)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LocalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightDelivery {
    /// Records an attempt, so that the deliveries behind it need not wait for the store.
    pub(super) fn attempted(&self) {
        let mut here = self.order.lock();
        if here.attempted.insert(self.id) {
            here.attempted_in_order.push_back(self.id);
        }
        if here.attempted_in_order.len() > ATTEMPTED_MAX
            && let Some(oldest) = here.attempted_in_order.pop_front()
        {
            here.attempted.remove(&oldest);
        }
    }
}

impl Drop for InFlightDelivery {
    fn drop(&mut self) {
        self.order.lock().in_flight.remove(&self.id);
    }
}

/// Returns the deliveries of earlier events, ordered by version, because ids depend on the replica's clock.
async fn older(ctx: &Ctx) -> Result<Vec<Job>, StoreError> {
    let delivery = ctx.job();
    let endpoint = delivery.labels.get_key_value(ENDPOINT_LABEL);
    let labels = endpoint.map(|(name, id)| (name.clone(), id.clone())).into_iter().collect();
    let before = JobId::from_parts(delivery.created_at.after(CLOCK_SKEW_MAX), 0);
    let mut older = ctx.siblings(labels, LOOK_BACK, before).await?;
    older.retain(|other| delivered_version(other.id) < delivered_version(delivery.id));
    Ok(older)
}

/// The webhook of a job has no endpoint label.
fn is_same_endpoint(one: &Job, other: &Job) -> bool {
    one.labels.get(ENDPOINT_LABEL) == other.labels.get(ENDPOINT_LABEL)
}

/// Returns whether an attempt has finished. An attempt that was lost with its worker does not count, because it may not
/// have been sent; it is repeated at once.
pub(super) fn was_attempted(delivery: &Job) -> bool {
    delivery.error.as_ref().is_some_and(|error| error.code != JobError::WORKER_LOST)
}

fn is_unattempted(delivery: &Job) -> bool {
    let is_unfinished = matches!(delivery.status, Status::Pending | Status::Running);
    // Further attempts without an error belong to a resent dead letter.
    let is_first = delivery.attempt <= 1 || delivery.error.is_some();
    is_unfinished && is_first && !was_attempted(delivery)
}

fn is_unwanted(delivery: &Job) -> bool {
    let is_own = !delivery.labels.contains_key(ENDPOINT_LABEL);
    is_own && delivery.error.as_ref().is_some_and(|error| error.code == GONE)
}
