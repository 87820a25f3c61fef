//! Limits on concurrent lists, so that they leave the store's connections to submissions, claims and reads of single jobs.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::job::TenantId;
use crate::store::StoreError;
use crate::sync::Mutex;

/// Maximum number of lists that this process runs at a time. Each occupies a connection, and a core for some milliseconds.
const LISTS_MAX: usize = 2;
/// Maximum number of lists of one tenant at a time. Fewer than all, so that other tenants do not wait for it.
const LISTS_OF_TENANT_MAX: usize = 1;
/// Maximum number of lists of one tenant that wait. Further ones are rejected, because they would only wait longer.
const WAITING_OF_TENANT_MAX: usize = 64;
/// Time after which a list counts as expensive. A page of a list whose filter matches takes less.
const EXPENSIVE_AFTER: Duration = Duration::from_micros(500);
/// Pause of a tenant's lists after an expensive one, as a multiple of its time: they occupy a core for a third of the time.
const PAUSE_FACTOR: u32 = 2;
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Permits for lists. Tenants get them in turns, because only the first list of each waits for a permit of the process.
#[derive(Debug)]
pub(in crate::engine) struct ListPermits {
    all: Arc<Semaphore>,
    /// Tenants with lists that run or wait.
    tenants: Mutex<HashMap<TenantId, Weak<TenantLists>>>,
}

/// The lists of one tenant that run or wait.
#[derive(Debug)]
struct TenantLists {
    running: Arc<Semaphore>,
    /// Places for lists that run or wait.
    open: Arc<Semaphore>,
}

/// Permission to run one list, until it is dropped.
#[derive(Debug)]
pub(super) struct ListPermit {
    all: OwnedSemaphorePermit,
    of_tenant: OwnedSemaphorePermit,
    open: OwnedSemaphorePermit,
    tenant: Arc<TenantLists>,
}

impl ListPermit {
    /// Ends a list that took so long. If it was expensive, further lists of its tenant wait for a moment.
    pub(super) fn end(self, took: Duration) {
        let Self { all, of_tenant, open, tenant } = self;
        drop((all, open));
        if took >= EXPENSIVE_AFTER {
            // Not the engine's clock, which stands still in tests.
            let pause = tokio::time::sleep(PAUSE_MAX.min(took * PAUSE_FACTOR));
            tokio::spawn(async move {
                pause.await;
                drop((of_tenant, tenant));
            });
        }
    }
}

impl Default for ListPermits {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(LISTS_MAX)), tenants: Mutex::default() }
    }
}

impl ListPermits {
    /// Waits for a permit. A tenant and its outbox share theirs.
    pub(super) async fn acquire(&self, tenant: &TenantId) -> Result<ListPermit, StoreError> {
        let tenant = self.tenant(tenant.owner());
        let open = Arc::clone(&tenant.open).try_acquire_owned().map_err(|_| {
            StoreError::Unavailable("too many lists of this tenant at once; retry later".to_owned())
        })?;
        let closed = |_| StoreError::Unavailable("the engine is stopping".to_owned());
        let of_tenant = Arc::clone(&tenant.running).acquire_owned().await.map_err(closed)?;
        let all = Arc::clone(&self.all).acquire_owned().await.map_err(closed)?;
        Ok(ListPermit { all, of_tenant, open, tenant })
    }

    fn tenant(&self, tenant: TenantId) -> Arc<TenantLists> {
        let mut tenants = self.tenants.lock();
        if let Some(lists) = tenants.get(&tenant).and_then(Weak::upgrade) {
            return lists;
        }
        tenants.retain(|_, lists| lists.strong_count() > 0);
        let lists = Arc::new(TenantLists {
            running: Arc::new(Semaphore::new(LISTS_OF_TENANT_MAX)),
            open: Arc::new(Semaphore::new(LISTS_OF_TENANT_MAX + WAITING_OF_TENANT_MAX)),
        });
        tenants.insert(tenant, Arc::downgrade(&lists));
        lists
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    #[tokio::test]
    async fn lists_of_one_tenant_leave_a_permit_for_others() {
        let permits = ListPermits::default();
        let (us, other, third) = (tenant("us"), tenant("other"), tenant("third"));
        let first = permits.acquire(&us).await.unwrap();
        let mut second = Box::pin(permits.acquire(&us));
        let outbox = us.outbox();
        let mut of_outbox = Box::pin(permits.acquire(&outbox));
        assert!(poll!(&mut second).is_pending() && poll!(&mut of_outbox).is_pending());
        let theirs = permits.acquire(&other).await.unwrap();
        let mut of_third = Box::pin(permits.acquire(&third));
        assert!(poll!(&mut of_third).is_pending(), "all permits are in use");
        drop(first);
        // A tenant with one list does not wait for all lists of another.
        assert!(poll!(&mut second).is_pending());
        let third_permit = of_third.await.unwrap();
        drop(theirs);
        second.await.unwrap();
        of_outbox.await.unwrap();
        drop(third_permit);
    }

    #[tokio::test(start_paused = true)]
    async fn expensive_list_is_followed_by_a_pause_of_its_tenant() {
        let permits = ListPermits::default();
        let (us, other) = (tenant("us"), tenant("other"));
        permits.acquire(&us).await.unwrap().end(Duration::from_micros(400));
        permits.acquire(&us).await.unwrap().end(Duration::from_millis(10));
        let mut second = Box::pin(permits.acquire(&us));
        assert!(poll!(&mut second).is_pending());
        drop(permits.acquire(&other).await.unwrap());
        tokio::time::advance(Duration::from_millis(19)).await;
        assert!(poll!(&mut second).is_pending());
        tokio::time::advance(Duration::from_millis(2)).await;
        // The pause ends in a task.
        tokio::task::yield_now().await;
        assert!(poll!(&mut second).is_ready());
    }

    #[tokio::test]
    async fn list_that_would_wait_for_many_is_rejected() {
        let permits = ListPermits::default();
        let us = tenant("us");
        let running = permits.acquire(&us).await.unwrap();
        let mut waiting: Vec<_> =
            (0..WAITING_OF_TENANT_MAX).map(|_| Box::pin(permits.acquire(&us))).collect();
        for list in &mut waiting {
            assert!(poll!(list).is_pending());
        }
        assert!(matches!(permits.acquire(&us).await, Err(StoreError::Unavailable(_))));
        // A caller that stops waiting makes room.
        waiting.pop();
        assert!(poll!(Box::pin(permits.acquire(&us))).is_pending());
        drop((running, waiting));
        permits.acquire(&us).await.unwrap();
    }

    #[tokio::test]
    async fn tenants_without_lists_are_forgotten() {
        let permits = ListPermits::default();
        for number in 0..10 {
            drop(permits.acquire(&tenant(&format!("t{number}"))).await.unwrap());
        }
        assert_eq!(permits.tenants.lock().len(), 1);
    }
}
