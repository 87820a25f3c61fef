//! Runs every call on two stores and requires equal results.

use std::fmt::Debug;
use std::sync::Arc;

use longhaul::job::Job;
use longhaul::store::{Claim, ClaimResult, Store, StoreError};

/// Two stores with one clock.
pub(crate) struct DifferentialStore {
    pub(crate) one: Arc<dyn Store>,
    pub(crate) other: Arc<dyn Store>,
}

/// Returns the result, which must be the same for both stores.
fn same<T: Debug>(call: &str, one: T, other: &T) -> T {
    let (first, second) = (format!("{one:?}"), format!("{other:?}"));
    assert_eq!(first, second, "the stores do not agree on {call}");
    one
}

impl DifferentialStore {
    async fn claim(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        let (mut one, mut other) = (self.one.claim(want).await?, self.other.claim(want).await?);
        // A claim that reached its limit need not report when a rate admits more, because the worker claims again.
        if one.leases.len() >= want.limit {
            (one.limited_until, other.limited_until) = (None, None);
        }
        Ok(same("claim", one, &other))
    }

    async fn rescue(&self, limit: usize) -> Result<Vec<Job>, StoreError> {
        let (mut one, mut other) = (self.one.rescue(limit).await?, self.other.rescue(limit).await?);
        one.sort_by_key(|job| job.id);
        other.sort_by_key(|job| job.id);
        Ok(same("rescue", one, &other))
    }
}

macro_rules! call {
    // The number of usage deltas depends on the store.
    ($this:ident, roll_up_usage, $limit:ident) => {
        async {
            $this.one.roll_up_usage($limit).await?;
            $this.other.roll_up_usage($limit).await
        }
    };
    ($this:ident, claim, $want:ident) => {
        $this.claim($want)
    };
    ($this:ident, rescue, $limit:ident) => {
        $this.rescue($limit)
    };
    ($this:ident, now) => {
        $this.one.now()
    };
    ($this:ident, change_notifications) => {
        $this.other.change_notifications()
    };
    ($this:ident, output_streams) => {
        $this.other.output_streams()
    };
    ($this:ident, outbox_notify) => {
        $this.other.outbox_notify()
    };
    ($this:ident, $method:ident $(, $argument:ident)*) => {
        async {
            let one = $this.one.$method($(Clone::clone(&$argument)),*).await;
            let other = $this.other.$method($($argument),*).await;
            same(stringify!($method), one, &other)
        }
    };
}

longhaul::delegate_store!(impl[] for DifferentialStore, call);
