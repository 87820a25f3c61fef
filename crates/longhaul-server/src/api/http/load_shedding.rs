//! Load shedding: rejects requests early when the server or its store is overloaded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use longhaul::{Clock, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::{Code, Problem, Result};

/// Percentage of the permits that submissions may hold; the rest is reserved for reads and control.
const SUBMISSION_PERCENT: usize = 80;
/// Store latency for a submission that counts as healthy.
const TARGET_LATENCY: Duration = Duration::from_secs(1);
/// Time above the target before shedding starts, and between its levels.
const INTERVAL: Duration = Duration::from_secs(2);
/// Size above which a body needs a permit.
pub(crate) const LARGE_BODY_BYTES: usize = 1024 * 1024;
/// Memory of all large bodies together.
const LARGE_BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Highest shedding level: at worst one of 2⁵ submissions is admitted, so that a recovered store is noticed.
const SHED_LEVEL_MAX: u32 = 5;

/// Keeps response times low by rejecting excess requests with 503 `overloaded`.
///
/// **Permits.** A request holds one while it is processed: not while its body arrives, not while it
/// waits for a job (`?wait`, `Prefer: wait`), and not while an event stream is open. Submissions may hold
/// 80 % of the permits, reads and control all of them. Health and metrics requests are never rejected,
/// because rejecting them would make an overload worse.
///
/// **Store latency.** Permits alone would let a slow store fill them first. The store's latency for
/// submissions is therefore controlled like a queue in `CoDel`: when no submission met the target for one
/// interval, every second one is rejected, after another interval three of four, and so on. The first
/// submission that meets the target, or the end of the last open one, resets the level.
///
/// **Large bodies.** Bodies over 1 MiB share 256 MiB of memory, from their arrival until their job is stored.
#[derive(Debug, Clone)]
pub struct LoadShedder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    permits: usize,
    in_flight: AtomicUsize,
    clock: Clock,
    /// Free bytes for large bodies.
    large_bodies: Arc<Semaphore>,
    /// A std mutex: locked for a few field writes, never across an await.
    store: Mutex<StoreLatency>,
}

#[derive(Debug)]
struct StoreLatency {
    /// Submissions that the store is processing.
    open: usize,
    /// Last time the store was known to be healthy: it met the target, or was idle.
    healthy_at: Timestamp,
    arrivals: u64,
}

/// Load-shedding class of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Never rejected: health and metrics.
    Vital,
    /// Rejected when no permit is free.
    Normal,
    /// Rejected first, and also when the store is slow.
    Submission,
}

tokio::task_local! {
    static PERMIT: RequestPermit;
}

/// Permission to process one request, released on drop.
struct RequestPermit(Arc<Inner>);

/// Memory for a large body, released on drop.
#[derive(Debug)]
pub(crate) struct BodyPermit(
    #[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit,
);

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LoadShedder {
    /// Creates a load shedder that admits `permits` concurrent requests.
    pub fn new(permits: usize, clock: Clock) -> Self {
        let store = StoreLatency { open: 0, healthy_at: clock.now(), arrivals: 0 };
        let in_flight = AtomicUsize::new(0);
        let large_bodies = Arc::new(Semaphore::new(LARGE_BODIES_BYTES_MAX));
        Self(Arc::new(Inner { permits, in_flight, clock, large_bodies, store: store.into() }))
    }

    /// Reserves memory for a body of this size.
    pub(crate) fn reserve_body(&self, bytes: usize) -> Result<BodyPermit> {
        let bytes = u32::try_from(bytes.min(LARGE_BODIES_BYTES_MAX)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.0.large_bodies).try_acquire_many_owned(bytes);
        permit.map(BodyPermit).map_err(|_| {
            metrics::counter!("longhaul_requests_shed_total", "reason" => "bodies").increment(1);
            overloaded("too many large bodies at once", 1)
        })
    }

    /// Returns the number of requests that hold a permit.
    pub fn in_flight(&self) -> usize {
        self.0.in_flight.load(Ordering::Relaxed)
    }

    fn acquire(&self, class: Class) -> Result<RequestPermit> {
        let Inner { permits, in_flight, .. } = &*self.0;
        let limit = match class {
            Class::Vital => usize::MAX,
            Class::Normal => *permits,
            Class::Submission => (permits * SUBMISSION_PERCENT / 100).max(1),
        };
        let permit = RequestPermit(Arc::clone(&self.0));
        if in_flight.fetch_add(1, Ordering::Relaxed) >= limit {
            metrics::counter!("longhaul_requests_shed_total", "reason" => "places").increment(1);
            return Err(overloaded("too many concurrent requests", 1));
        }
        if class == Class::Submission && self.must_shed() {
            metrics::counter!("longhaul_requests_shed_total", "reason" => "slow").increment(1);
            return Err(overloaded("the store is slow", 2));
        }
        Ok(permit)
    }

    fn must_shed(&self) -> bool {
        let now = self.0.clock.now();
        let mut store = self.0.store.lock().unwrap_or_else(PoisonError::into_inner);
        let level = store.shed_level(now);
        store.arrivals = store.arrivals.wrapping_add(1);
        level > 0 && !store.arrivals.is_multiple_of(1 << level)
    }

    /// Runs a submission and measures the store's latency for it.
    pub(crate) async fn measure<T>(&self, submit: impl Future<Output = T>) -> T {
        /// Also ends the measurement when the client disconnects.
        struct Open<'a>(&'a Inner, Timestamp);
        impl Drop for Open<'_> {
            fn drop(&mut self) {
                let now = self.0.clock.now();
                let mut store = self.0.store.lock().unwrap_or_else(PoisonError::into_inner);
                store.open = store.open.saturating_sub(1);
                if now.since(self.1) <= TARGET_LATENCY {
                    store.healthy_at = now;
                }
            }
        }
        let open = {
            let now = self.0.clock.now();
            let mut store = self.0.store.lock().unwrap_or_else(PoisonError::into_inner);
            if store.open == 0 {
                store.healthy_at = now;
            }
            store.open += 1;
            Open(&self.0, now)
        };
        let submitted = submit.await;
        drop(open);
        submitted
    }
}

impl StoreLatency {
    /// Returns the shedding level `n`: one of 2ⁿ submissions is admitted.
    fn shed_level(&self, now: Timestamp) -> u32 {
        let late = now.since(self.healthy_at);
        let above = late.checked_sub(TARGET_LATENCY + INTERVAL).filter(|_| self.open > 0);
        let Some(above) = above else { return 0 };
        let intervals = above.as_millis() / INTERVAL.as_millis();
        u32::try_from(intervals).unwrap_or(SHED_LEVEL_MAX).saturating_add(1).min(SHED_LEVEL_MAX)
    }
}

fn overloaded(reason: &str, retry_s: u64) -> Problem {
    let detail = format!("{reason}; the request was not processed: retry it later");
    Problem::new(Code::Overloaded, detail).retry_after(Duration::from_secs(retry_s))
}

/// Middleware that acquires a permit for a request, or rejects it.
pub(crate) async fn shed(
    State((load_shedder, class)): State<(LoadShedder, Class)>,
    request: Request,
    next: Next,
) -> Response {
    match load_shedder.acquire(class) {
        Ok(permit) => PERMIT.scope(permit, next.run(request)).await,
        Err(problem) => problem.into_response(),
    }
}

/// Waits without holding the request's permit, because waiting costs the server nothing.
///
/// The permit is taken again afterwards even if none is free: the request is already admitted.
pub(crate) async fn without_permit<T>(wait: impl Future<Output = T>) -> T {
    /// Counts the permit again also when the wait is dropped, because the request then releases it.
    struct Released(Option<Arc<Inner>>);
    impl Drop for Released {
        fn drop(&mut self) {
            if let Some(inner) = &self.0 {
                inner.in_flight.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    let inner = PERMIT.try_with(|RequestPermit(inner)| Arc::clone(inner)).ok();
    if let Some(inner) = &inner {
        inner.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
    let released = Released(inner);
    let value = wait.await;
    drop(released);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_shedder(permits: usize) -> LoadShedder {
        LoadShedder::new(permits, Clock::manual(Timestamp::from_millis(0)))
    }

    fn is_shed(result: Result<RequestPermit>) -> bool {
        result.is_err_and(|problem| problem.code() == Code::Overloaded)
    }

    #[test]
    fn submissions_leave_permits_for_reads_and_vital_requests_are_never_shed() {
        let shedder = load_shedder(10);
        let mut permits: Vec<RequestPermit> =
            (0..8).map(|_| shedder.acquire(Class::Submission).ok().unwrap()).collect();
        assert!(is_shed(shedder.acquire(Class::Submission)));
        permits.extend((0..2).map(|_| shedder.acquire(Class::Normal).ok().unwrap()));
        assert!(is_shed(shedder.acquire(Class::Normal)));
        permits.push(shedder.acquire(Class::Vital).ok().unwrap());
        drop(permits);
        assert_eq!(shedder.in_flight(), 0, "shed requests hold no permit");
        assert!(shedder.acquire(Class::Submission).is_ok());
    }

    #[test]
    fn large_bodies_share_their_memory() {
        let shedder = load_shedder(100);
        let reserve = || shedder.reserve_body(LARGE_BODIES_BYTES_MAX / 8);
        let mut permits: Vec<BodyPermit> = (0..8).map(|_| reserve().ok().unwrap()).collect();
        assert!(reserve().is_err_and(|problem| problem.code() == Code::Overloaded));
        permits.pop();
        assert!(reserve().is_ok());
    }

    #[tokio::test]
    async fn waiting_request_releases_its_permit_and_takes_it_again() {
        let shedder = load_shedder(1);
        let permit = shedder.acquire(Class::Normal).ok().unwrap();
        let request = PERMIT.scope(permit, async {
            assert_eq!(without_permit(async { shedder.in_flight() }).await, 0);
            assert_eq!(shedder.in_flight(), 1);
            // A dropped wait.
            let wait = without_permit(std::future::pending::<()>());
            drop(tokio::time::timeout(Duration::ZERO, wait).await);
            assert_eq!(shedder.in_flight(), 1);
        });
        request.await;
        assert_eq!(shedder.in_flight(), 0);
    }

    fn shed_of_64(shedder: &LoadShedder) -> usize {
        (0..64).filter(|_| is_shed(shedder.acquire(Class::Submission))).count()
    }

    #[tokio::test]
    async fn slow_store_gets_ever_fewer_submissions_until_it_meets_the_target() {
        let shedder = load_shedder(1_000);
        let clock = shedder.0.clock.clone();
        let mut stalled = Box::pin(shedder.measure(std::future::pending::<()>()));
        assert!(futures_util::poll!(&mut stalled).is_pending());
        assert_eq!(shed_of_64(&shedder), 0);
        clock.advance(TARGET_LATENCY + INTERVAL);
        assert_eq!(shed_of_64(&shedder), 32);
        clock.advance(INTERVAL);
        assert_eq!(shed_of_64(&shedder), 48);
        clock.advance(INTERVAL * 100);
        assert_eq!(shed_of_64(&shedder), 62, "some are always admitted");
        assert!(shedder.acquire(Class::Normal).is_ok(), "reads are not shed for a slow store");
        shedder.measure(async {}).await;
        assert_eq!(shed_of_64(&shedder), 0, "one fast submission resets the level");
    }

    #[tokio::test]
    async fn end_of_the_last_slow_submission_resets_the_level() {
        let shedder = load_shedder(1_000);
        let mut stalled = Box::pin(shedder.measure(std::future::pending::<()>()));
        assert!(futures_util::poll!(&mut stalled).is_pending());
        shedder.0.clock.advance(TARGET_LATENCY + INTERVAL);
        assert_eq!(shed_of_64(&shedder), 32);
        drop(stalled);
        assert_eq!(shed_of_64(&shedder), 0);
    }
}
