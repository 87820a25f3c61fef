//! Two processes on one database that serve calls alternately, so that no call can depend on the
//! memory of one process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul::Clock;
use longhaul::job::{JobId, TenantId, Timestamp};
use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{
    ChangeNotifications, Checkpoint, CheckpointResult, Claim, ClaimResult, LeaseRef, Report,
    SettleResult, Settlement, Store, StoreError, WorkerStore,
};
use tokio::sync::Notify;

use super::database::{TestDatabase, open_now};

/// Two stores on one database. Writes with a lease go through the store that did not claim it, so
/// that no store ends an attempt from its own memory of the claim.
pub(crate) struct AlternatingStore {
    stores: [PostgresStore; 2],
    calls: AtomicUsize,
    claims: AtomicUsize,
    /// Index of the store that last claimed each job. A std mutex: held for a map access, never
    /// across an await.
    claimers: Mutex<HashMap<(TenantId, JobId), usize>>,
}

impl AlternatingStore {
    pub(crate) fn open_now(url: &str, clock: &Clock) -> Self {
        let open = || open_now(url, clock.clone()).always_sharing_leases();
        Self {
            stores: [open(), open()],
            calls: AtomicUsize::new(0),
            claims: AtomicUsize::new(0),
            claimers: Mutex::default(),
        }
    }

    fn turn(&self) -> usize {
        self.calls.fetch_add(1, Ordering::Relaxed) % 2
    }

    fn next(&self) -> &PostgresStore {
        &self.stores[self.turn()]
    }

    /// Returns the store that did not claim this lease.
    fn other(&self, lease: &LeaseRef) -> &PostgresStore {
        let claimers = self.claimers.lock().unwrap_or_else(PoisonError::into_inner);
        let claimer = claimers.get(&(lease.tenant.clone(), lease.job)).copied();
        &self.stores[1 - claimer.unwrap_or_default()]
    }

    /// Returns, for each lease of a batch, true if it goes to the second store.
    fn other_of_all<'a>(&self, leases: impl Iterator<Item = &'a LeaseRef>) -> Vec<bool> {
        leases.map(|lease| std::ptr::eq(self.other(lease), &raw const self.stores[1])).collect()
    }
}

/// Splits a batch between the two stores and restores the order of the results.
macro_rules! split {
    ($self:ident, $items:ident, $call:ident) => {{
        let second = $self.other_of_all($items.iter().map(|item| &item.lease));
        let mut parts = [Vec::new(), Vec::new()];
        for (item, second) in $items.into_iter().zip(&second) {
            parts[usize::from(*second)].push(item);
        }
        let [first_part, second_part] = parts;
        let mut answers = [
            $self.stores[0].$call(first_part).await.into_iter(),
            $self.stores[1].$call(second_part).await.into_iter(),
        ];
        second.iter().map(|second| answers[usize::from(*second)].next().unwrap()).collect()
    }};
}

/// Opens two stores on a new database.
pub(crate) async fn alternating_harness() -> StoreHarness {
    let database = TestDatabase::create().await;
    let (clock, url) = (StoreHarness::clock(), database.url());
    let store = AlternatingStore::open_now(&url, &clock);
    let reopen = move |clock| AlternatingStore::open_now(&url, &clock);
    StoreHarness::new(store, clock).keeping(database).reopened_by(reopen)
}

impl AlternatingStore {
    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        // Three claims at a time, because each process remembers on its own which tenant was served last.
        let turn = self.claims.fetch_add(1, Ordering::Relaxed) / 3 % 2;
        let claimed = self.stores[turn].claim(want).await?;
        let mut claimers = self.claimers.lock().unwrap_or_else(PoisonError::into_inner);
        for lease in &claimed.leases {
            claimers.insert((lease.job.tenant.clone(), lease.job.id), turn);
        }
        Ok(claimed)
    }

    async fn report(&self, reports: Vec<Report>) -> Vec<Result<(), StoreError>> {
        split!(self, reports, report)
    }

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<CheckpointResult, StoreError> {
        self.other(&checkpoint.lease).checkpoint(checkpoint).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        split!(self, settlements, settle)
    }

    fn now(&self) -> Timestamp {
        self.stores[0].now()
    }

    fn change_notifications(&self) -> Option<ChangeNotifications> {
        self.stores[0].change_notifications()
    }

    fn outbox_notify(&self) -> Arc<Notify> {
        self.stores[0].outbox_notify()
    }
}

longhaul::delegate_store!(
    impl for AlternatingStore,
    to [next()],
    except claim report checkpoint settle now change_notifications outbox_notify
);
