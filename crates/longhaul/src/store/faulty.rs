//! Fault injection: a store wrapper that fails chosen calls before or after their commit.

use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use super::{NewJob, Store, StoreError, SubmitResult};

/// The point at which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request is lost: the store is not called.
    BeforeCommit,
    /// The response is lost: the store is called, and its result discarded.
    AfterCommit,
}

/// A plan of failing calls.
#[derive(Debug)]
pub struct FaultPlan {
    random: StdRng,
    /// Failures per thousand calls, for each [`Fault`].
    per_mille: u32,
    next: Option<Fault>,
}

impl FaultPlan {
    /// Returns a plan without failures.
    pub fn none() -> Self {
        Self::seeded(0, 0)
    }

    /// Returns a plan in which about `per_mille` of a thousand calls fail before their commit and as many
    /// after it, chosen by the seed.
    pub fn seeded(seed: u64, per_mille: u32) -> Self {
        Self { random: StdRng::seed_from_u64(seed), per_mille, next: None }
    }

    fn draw(&mut self) -> Option<Fault> {
        if let Some(fault) = self.next.take() {
            return Some(fault);
        }
        match self.random.random_range(0..1_000) {
            n if n < self.per_mille => Some(Fault::BeforeCommit),
            n if n < self.per_mille.saturating_mul(2) => Some(Fault::AfterCommit),
            _ => None,
        }
    }
}

/// A store whose calls fail according to a plan, each with [`StoreError::Unavailable`].
#[derive(Debug)]
pub struct FaultyStore<S: ?Sized> {
    inner: Arc<S>,
    // A std mutex, because it is never held across an await.
    plan: Mutex<FaultPlan>,
    stalled: watch::Sender<bool>,
}

impl<S: Store + ?Sized> FaultyStore<S> {
    /// Wraps a store.
    pub fn new(inner: Arc<S>, plan: FaultPlan) -> Self {
        Self { inner, plan: Mutex::new(plan), stalled: watch::Sender::new(false) }
    }

    /// Replaces the plan, for example by one without failures.
    pub fn follow(&self, plan: FaultPlan) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// Makes the next call fail.
    pub fn fail_next(&self, fault: Fault) {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).next = Some(fault);
    }

    /// Stalls or resumes submissions that start from now on.
    pub fn stall_submits(&self, stalled: bool) {
        self.stalled.send_replace(stalled);
    }

    /// Returns the wrapped store, for reading its true state.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the wrapped store.
    pub fn into_inner(self) -> Arc<S> {
        self.inner
    }

    fn draw(&self) -> Option<Fault> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }

    async fn one<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match self.draw() {
            None => call.await,
            Some(Fault::BeforeCommit) => Err(unavailable()),
            Some(Fault::AfterCommit) => call.await.and(Err(unavailable())),
        }
    }

    async fn submit_unless_stalled(
        &self,
        jobs: Vec<NewJob>,
    ) -> Vec<Result<SubmitResult, StoreError>> {
        let mut stalled = self.stalled.subscribe();
        // Cannot fail: `self` owns the sender.
        stalled.wait_for(|stalled| !stalled).await.ok();
        self.batch(jobs.len(), self.inner.submit(jobs)).await
    }

    async fn batch<T>(
        &self,
        items: usize,
        call: impl Future<Output = Vec<Result<T, StoreError>>>,
    ) -> Vec<Result<T, StoreError>> {
        let fault = self.draw();
        if fault.is_none() {
            return call.await;
        }
        if fault == Some(Fault::AfterCommit) {
            drop(call.await);
        }
        std::iter::repeat_with(|| Err(unavailable())).take(items).collect()
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("injected fault".to_owned())
}

macro_rules! call {
    ($this:ident, submit, $jobs:ident) => {
        $this.submit_unless_stalled($jobs)
    };
    // A batch fails as one, because its items share a connection.
    ($this:ident, report, $reports:ident) => {
        $this.batch($reports.len(), $this.inner.report($reports))
    };
    ($this:ident, settle, $settlements:ident) => {
        $this.batch($settlements.len(), $this.inner.settle($settlements))
    };
    ($this:ident, now) => {
        $this.inner.now()
    };
    ($this:ident, change_notifications) => {
        $this.inner.change_notifications()
    };
    ($this:ident, output_streams) => {
        $this.inner.output_streams()
    };
    ($this:ident, outbox_notify) => {
        $this.inner.outbox_notify()
    };
    ($this:ident, $method:ident $(, $argument:ident)*) => {
        $this.one($this.inner.$method($($argument),*))
    };
}

crate::delegate_store!(impl[S: Store + ?Sized] for FaultyStore<S>, call);
