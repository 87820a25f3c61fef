//! Two processes on one database that serve calls by turns, so that nothing depends on what one of
//! them remembers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use longhaul::Clock;
use longhaul::job::{JobId, TenantId};
use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::{
    Checkpoint, Claim, ClaimResult, LeaseRef, Report, SettleResult, Settlement, StoreError,
    WorkerStore,
};

use super::database::{TestDatabase, open_now};

/// Two stores on one database. What a lease's holder writes goes through the one that did not claim
/// it: no store ever ends an attempt from its own memory of the claim.
pub(crate) struct AlternatingStore {
    stores: [PostgresStore; 2],
    calls: AtomicUsize,
    claims: AtomicUsize,
    /// Which of the two claimed a job last. A std mutex: held for a map access, never across an await.
    claimers: Mutex<HashMap<(TenantId, JobId), usize>>,
}

impl AlternatingStore {
    pub(crate) fn open_now(url: &str, clock: &Clock) -> Self {
        Self {
            stores: [open_now(url, clock.clone()), open_now(url, clock.clone())],
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

    /// Not the one that claimed this.
    fn other(&self, lease: &LeaseRef) -> &PostgresStore {
        let claimers = self.claimers.lock().unwrap_or_else(PoisonError::into_inner);
        let claimer = claimers.get(&(lease.tenant.clone(), lease.job)).copied();
        &self.stores[1 - claimer.unwrap_or_default()]
    }

    /// Whether this batch goes to the second store; one that belongs to both goes to either.
    fn other_of_all<'a>(&self, leases: impl Iterator<Item = &'a LeaseRef>) -> Vec<bool> {
        leases.map(|lease| std::ptr::eq(self.other(lease), &raw const self.stores[1])).collect()
    }
}

/// Splits a batch between the two, and puts the answers back in order.
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

/// Two processes on a database of their own.
pub(crate) async fn alternating_harness() -> StoreHarness {
    let database = TestDatabase::create().await;
    let (clock, url) = (StoreHarness::clock(), database.url());
    let store = AlternatingStore::open_now(&url, &clock);
    let reopen = move |clock| AlternatingStore::open_now(&url, &clock);
    StoreHarness::new(store, clock).keeping(database).reopened_by(reopen)
}

impl AlternatingStore {
    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        // Three at a time: which tenant was served last is each process's own memory.
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

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.other(&checkpoint.lease).checkpoint(checkpoint).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<SettleResult, StoreError>> {
        split!(self, settlements, settle)
    }
}

macro_rules! call {
    ($this:ident, claim, $want:ident) => {
        $this.claim($want)
    };
    ($this:ident, report, $reports:ident) => {
        $this.report($reports)
    };
    ($this:ident, checkpoint, $checkpoint:ident) => {
        $this.checkpoint($checkpoint)
    };
    ($this:ident, settle, $settlements:ident) => {
        $this.settle($settlements)
    };
    ($this:ident, now) => {
        $this.stores[0].now()
    };
    ($this:ident, change_notifications) => {
        $this.stores[0].change_notifications()
    };
    ($this:ident, outbox_notify) => {
        $this.stores[0].outbox_notify()
    };
    ($this:ident, $method:ident $(, $argument:ident)*) => {
        $this.next().$method($($argument),*)
    };
}

longhaul::delegate_store!(impl[] for AlternatingStore, call);
