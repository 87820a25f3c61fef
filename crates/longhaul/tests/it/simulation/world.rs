//! Shared parts of a run: the store, the clock, the plan and the ledger.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use longhaul::{Clock, JobId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::ledger::Ledger;
use super::link::Link;
use super::plan::{Plan, derive};
use super::planted::Bug;
use crate::model_store::ModelStore;

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) clock: Clock,
    pub(super) store: ModelStore,
    pub(super) ledger: Ledger,
    pub(super) bug: Bug,
    /// Jobs that clients know of.
    pub(super) jobs: Mutex<Vec<JobId>>,
    links: Mutex<Vec<Weak<Link>>>,
    runs: AtomicU64,
    notifications: AtomicU64,
}

impl World {
    pub(super) fn new(plan: Plan, clock: Clock, bug: Bug) -> Arc<Self> {
        Arc::new(Self {
            plan,
            store: ModelStore::new(clock.clone()),
            ledger: Ledger::new(clock.clone()),
            clock,
            bug,
            jobs: Mutex::default(),
            links: Mutex::default(),
            runs: AtomicU64::new(0),
            notifications: AtomicU64::new(0),
        })
    }

    pub(super) fn is_healed(&self) -> bool {
        self.clock.now() >= self.plan.heals_at
    }

    /// Returns the number of a new run of a handler.
    pub(super) fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// Connects a new engine.
    pub(super) fn connect(self: &Arc<Self>, replica: usize, start: u64) -> Arc<Link> {
        let link = Arc::new(Link::new(self, replica, start));
        self.links.lock().unwrap().push(Arc::downgrade(&link));
        link
    }

    /// Notifies the other engines that a client requested a cancellation.
    pub(super) fn notify_of_cancellation(&self, from: &Link) {
        self.notify(from, Link::notify_of_cancellation);
    }

    /// Notifies the other engines that a job may be ready to claim.
    pub(super) fn notify_of_ready_jobs(&self, from: &Link) {
        self.notify(from, Link::notify_of_ready_jobs);
    }

    /// Notifies the other engines, after a delay, unless the notification is lost.
    fn notify(&self, from: &Link, notify: fn(&Link)) {
        let links: Vec<_> = self.links.lock().unwrap().iter().filter_map(Weak::upgrade).collect();
        for link in links.into_iter().filter(|link| link.name != from.name && !link.is_killed()) {
            let number = self.notifications.fetch_add(1, Ordering::Relaxed);
            let mut random = StdRng::seed_from_u64(derive(self.plan.seed, &[2, number]));
            let delay = Duration::from_millis(random.random_range(1..300));
            let is_lost =
                random.random_range(0..100) < self.plan.traffic.lost_notifications_percent;
            let (from, at) = (self.clock.now(), self.clock.now().after(delay));
            let is_cut_off = self.plan.loss(link.replica, from, at, 0).is_some();
            if is_lost || is_cut_off {
                continue;
            }
            let clock = self.clock.clone();
            tokio::spawn(async move {
                clock.sleep(delay).await;
                notify(&link);
            });
        }
    }
}
