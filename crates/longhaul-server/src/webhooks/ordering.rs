//! First deliveries of one job to one receiver are in the order of what they tell.
//!
//! Each looks for older ones that have not been tried yet. One that is being tried in this process is waited
//! for, since that is a matter of milliseconds; behind any other the delivery is put off for a moment.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul::job::{ENDPOINT_LABEL, Job, JobId, Status, delivered_version};
use longhaul::store::{Filter, PageRequest, Store, StoreError};
use longhaul::{Clock, JobError};
use tokio::sync::watch;

/// How many of a job's deliveries one looks at: more transitions of one job are not under way at once.
const LOOK_BACK: usize = 200;
/// How far apart the clocks of replicas may be: they follow the database's, as exactly as a round trip allows.
const CLOCKS_APART: Duration = Duration::from_secs(10);
/// How long an older delivery is waited for with a worker's place held.
const WAIT_HERE: Duration = Duration::from_secs(1);
/// How long a delivery is put off behind an older one, at least and at most: a quarter of its age.
const PUT_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(15));

/// Deliveries of this process that are remembered as tried until the store knows it, which takes milliseconds.
const TRIED_MAX: usize = 10_000;

/// The deliveries that are being tried in this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Order(
    /// A std mutex: held for a map access, never across an await.
    Arc<Mutex<Here>>,
);

#[derive(Debug, Default)]
struct Here {
    under_way: HashMap<JobId, watch::Receiver<()>>,
    tried: HashSet<JobId>,
    /// The same, oldest first.
    tried_in_order: VecDeque<JobId>,
}

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
        self.lock().under_way.insert(id, receiver);
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
            let older = older(store, delivery, parent).await?;
            let mut same = older.iter().filter(|other| is_same_receiver(delivery, other));
            if same.clone().any(is_unwanted) {
                return Ok(Turn::Unwanted);
            }
            let Some(before) = same.find(|other| is_untried(other) && !self.was_tried_here(other))
            else {
                return Ok(Turn::Now);
            };
            let now = clock.now();
            let age = now.since(delivery.created_at);
            // One that is put off itself is not worth looking at before it is due.
            let due_in = before.run_at.since(now);
            let later = Turn::Later((age / 4).clamp(PUT_OFF.0, PUT_OFF.1).max(due_in + PUT_OFF.0));
            let here = self.lock().under_way.get(&before.id).cloned();
            let Some(mut here) = here else { return Ok(later) };
            tokio::select! {
                // It ends by the drop of its sender.
                _ = here.changed() => {}
                () = clock.sleep_until(until) => return Ok(later),
            }
        }
    }

    fn was_tried_here(&self, delivery: &Job) -> bool {
        self.lock().tried.contains(&delivery.id)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Here> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    /// The receiver was told, or could not be: those behind it need not wait until that is stored.
    pub(super) fn tried(&self) {
        let mut here = self.order.lock();
        if here.tried.insert(self.id) {
            here.tried_in_order.push_back(self.id);
        }
        if here.tried_in_order.len() > TRIED_MAX
            && let Some(oldest) = here.tried_in_order.pop_front()
        {
            here.tried.remove(&oldest);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.order.lock().under_way.remove(&self.id);
    }
}

/// What tells of earlier transitions: by their versions, since an id is only as good as its replica's clock.
async fn older(store: &dyn Store, delivery: &Job, parent: JobId) -> Result<Vec<Job>, StoreError> {
    let endpoint = delivery.labels.get_key_value(ENDPOINT_LABEL);
    let filter = Filter {
        parent: Some(parent),
        labels: endpoint.map(|(name, id)| (name.clone(), id.clone())).into_iter().collect(),
        ..Filter::default()
    };
    let before = JobId::from_parts(delivery.created_at.after(CLOCKS_APART), 0);
    let page = PageRequest { limit: LOOK_BACK, before: Some(before) };
    let mut found = store.jobs(&delivery.tenant, &filter, &page).await?.jobs;
    found.retain(|other| delivered_version(other.id) < delivered_version(delivery.id));
    Ok(found)
}

/// The job's own webhook is the receiver without a label.
fn is_same_receiver(one: &Job, other: &Job) -> bool {
    one.labels.get(ENDPOINT_LABEL) == other.labels.get(ENDPOINT_LABEL)
}

/// Whether an attempt of it came to an end. A server that died with the delivery in hand may not have sent it:
/// it is tried again at once, so that nobody behind it waits long.
pub(super) fn was_tried(delivery: &Job) -> bool {
    delivery.error.as_ref().is_some_and(|error| error.code != JobError::WORKER_LOST)
}

fn is_untried(delivery: &Job) -> bool {
    let goes_on = matches!(delivery.status, Status::Pending | Status::Running);
    // Further attempts without an error are of a dead letter that is sent again.
    let is_first = delivery.attempt <= 1 || delivery.error.is_some();
    goes_on && is_first && !was_tried(delivery)
}

fn is_unwanted(delivery: &Job) -> bool {
    let is_own = !delivery.labels.contains_key(ENDPOINT_LABEL);
    is_own && delivery.error.as_ref().is_some_and(|error| error.code == GONE)
}
