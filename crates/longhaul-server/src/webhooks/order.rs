//! First deliveries of one job to one receiver are in the order of what they tell.
//!
//! Each looks for older ones that have not been tried yet. One that is being tried in this process is waited
//! for, since that is a matter of milliseconds; behind any other the delivery is put off for a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul::job::{ENDPOINT_LABEL, Job, JobId, Status};
use longhaul::store::{Filter, PageRequest, Store, StoreError};
use longhaul::{Clock, TenantId};
use tokio::sync::watch;

/// How far back a delivery looks: more transitions of one job are not under way at once.
const LOOK_BACK: usize = 100;
/// How long an older delivery is waited for with a worker's place held.
const WAIT_HERE: Duration = Duration::from_secs(1);
/// How long a delivery is put off behind an older one, at least and at most: a quarter of its age.
const PUT_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// The deliveries that are being tried in this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Order(
    /// A std mutex: held for a map access, never across an await.
    Arc<Mutex<HashMap<JobId, watch::Receiver<()>>>>,
);

/// A delivery that is being tried; those behind it go on when it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay {
    order: Order,
    id: JobId,
    _ends: watch::Sender<()>,
}

/// Whether it is a delivery's turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is.
    Now,
    /// An older one has to be tried first.
    Later(Duration),
    /// The receiver has said that it wants nothing more of this job.
    Unwanted,
}

/// The code of an attempt that was answered with 410.
pub(super) const GONE: &str = "gone";

impl Order {
    /// Takes note of a delivery that is about to be tried.
    pub(super) fn begin(&self, id: JobId) -> UnderWay {
        let (sender, receiver) = watch::channel(());
        self.lock().insert(id, receiver);
        UnderWay { order: self.clone(), id, _ends: sender }
    }

    /// Whether it is the turn of this delivery, which has not been tried yet.
    pub(super) async fn turn(
        &self,
        store: &dyn Store,
        delivery: &Job,
        clock: &Clock,
    ) -> Result<Turn, StoreError> {
        let Some(parent) = delivery.parent_id else { return Ok(Turn::Now) };
        let until = clock.now().after(WAIT_HERE);
        loop {
            let older = older(store, &delivery.tenant, parent, delivery.id).await?;
            let mut same = older.iter().filter(|other| is_same_receiver(delivery, other));
            if same.clone().any(is_unwanted) {
                return Ok(Turn::Unwanted);
            }
            let Some(before) = same.find(|other| is_untried(other)) else { return Ok(Turn::Now) };
            let age = clock.now().since(delivery.created_at);
            let later = Turn::Later((age / 4).clamp(PUT_OFF.0, PUT_OFF.1));
            let here = self.lock().get(&before.id).cloned();
            let Some(mut here) = here else { return Ok(later) };
            tokio::select! {
                // It ends by the drop of its sender.
                _ = here.changed() => {}
                () = clock.sleep_until(until) => return Ok(later),
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, watch::Receiver<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.order.lock().remove(&self.id);
    }
}

async fn older(
    store: &dyn Store,
    outbox: &TenantId,
    parent: JobId,
    than: JobId,
) -> Result<Vec<Job>, StoreError> {
    let filter = Filter { parent: Some(parent), ..Filter::default() };
    let page = PageRequest { limit: LOOK_BACK, before: Some(than) };
    Ok(store.jobs(outbox, &filter, &page).await?.jobs)
}

/// The job's own webhook is the receiver without a label.
fn is_same_receiver(one: &Job, other: &Job) -> bool {
    one.labels.get(ENDPOINT_LABEL) == other.labels.get(ENDPOINT_LABEL)
}

fn is_untried(delivery: &Job) -> bool {
    let goes_on = matches!(delivery.status, Status::Pending | Status::Running);
    goes_on && delivery.attempt <= 1 && delivery.error.is_none()
}

fn is_unwanted(delivery: &Job) -> bool {
    let is_own = !delivery.labels.contains_key(ENDPOINT_LABEL);
    is_own && delivery.error.as_ref().is_some_and(|error| error.code == GONE)
}
