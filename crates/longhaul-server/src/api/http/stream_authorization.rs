//! Authorization of open event streams, checked once for all streams of a caller.
//!
//! A check costs a hash and two lookups in a cache. If each stream made its own, waking thousands of idle streams every
//! two seconds would be most of their cost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use longhaul::{Clock, Timestamp};
use tokio_util::sync::CancellationToken;

use super::caller::{Authorization, CallerId};

/// Interval of authorization checks while a caller has open streams.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Authorizations of the callers that have open event streams.
#[derive(Debug, Clone, Default)]
pub struct StreamAuthorizations(Arc<Mutex<HashMap<CallerId, Weak<StreamAuthorization>>>>);

/// A caller's authorization, shared by its event streams.
#[derive(Debug)]
pub(crate) struct StreamAuthorization {
    authorization: Authorization,
    clock: Clock,
    /// Time of the last check, in milliseconds since 1970.
    checked_at: AtomicI64,
    /// Cancelled when the authorization has ended, or when the server stops.
    ended: CancellationToken,
}

impl StreamAuthorizations {
    /// Returns the authorization for a new stream of a caller that was just authenticated.
    pub(crate) fn open(
        &self,
        authorization: Authorization,
        clock: &Clock,
        stop: &CancellationToken,
    ) -> Arc<StreamAuthorization> {
        let id = authorization.caller_id();
        let mut callers = self.lock();
        if let Some(open) = callers.get(&id).and_then(Weak::upgrade)
            && !open.ended.is_cancelled()
        {
            return open;
        }
        let opened = Arc::new(StreamAuthorization {
            authorization,
            checked_at: AtomicI64::new(clock.now().as_millis()),
            clock: clock.clone(),
            ended: stop.child_token(),
        });
        let weak = Arc::downgrade(&opened);
        callers.insert(id.clone(), weak.clone());
        drop(callers);
        if opened.authorization.can_end() {
            tokio::spawn(recheck(self.clone(), id, weak, clock.clone()));
        }
        opened
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallerId, Weak<StreamAuthorization>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks an authorization as long as it has streams and is valid.
async fn recheck(
    streams: StreamAuthorizations,
    id: CallerId,
    authorization: Weak<StreamAuthorization>,
    clock: Clock,
) {
    loop {
        clock.sleep(RECHECK_INTERVAL).await;
        match authorization.upgrade() {
            Some(authorization) if authorization.is_valid().await => {}
            Some(_) | None => break,
        }
    }
    let mut callers = streams.lock();
    if callers.get(&id).is_some_and(|current| current.ptr_eq(&authorization)) {
        callers.remove(&id);
    }
}

impl StreamAuthorization {
    /// Returns whether the caller is still authorized, as of a check at most two seconds ago.
    pub(crate) async fn is_valid(&self) -> bool {
        let now = self.clock.now();
        let checked_at = Timestamp::from_millis(self.checked_at.load(Ordering::Acquire));
        if now >= checked_at.after(RECHECK_INTERVAL) && self.authorization.can_end() {
            // Boxed, because each open stream has room for this future.
            if Box::pin(self.authorization.recheck()).await.is_err() {
                self.ended.cancel();
            }
            self.checked_at.fetch_max(now.as_millis(), Ordering::Release);
        }
        !self.ended.is_cancelled()
    }

    /// Waits until the authorization has ended or the server stops.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}
