//! Per-endpoint concurrency limits and circuit breakers, so that a slow endpoint cannot delay deliveries to others.
//!
//! An endpoint's *window* is the number of its deliveries that are claimed at once. It is 2 for a new endpoint, 64 for
//! one that responds fast, so that it never waits for the store, and 1 after a failure. A hundred endpoints that hang
//! therefore occupy two hundred slots, not all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::job::Name;
use longhaul::store::QueueCapacity;
use longhaul::{Clock, Timestamp};
use longhaul_net::circuit_breaker::{self, BreakerOptions, BreakerState, CircuitBreaker};
use tokio::sync::Notify;

/// Concurrent requests to one endpoint from this process.
const IN_FLIGHT_MAX: usize = 8;
/// Window of an endpoint that responds fast. Larger than the concurrency, because requests finish soon.
const FAST_WINDOW: usize = 64;
/// Longest latency of a fast response.
const FAST_RESPONSE: Duration = Duration::from_millis(50);
/// Window of a new endpoint.
const INITIAL_WINDOW: usize = 2;
/// Window while the breaker is open. These deliveries are snoozed or charged with an attempt, so that they become dead
/// letters in the end.
const PROBE_WINDOW: usize = 4;
/// Interval of claims while the breaker is open.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Deliveries that wait in memory for a permit of one endpoint, which is usually free within milliseconds.
const WAITING_MAX: usize = 64;
/// Longest wait in memory, which occupies a worker slot.
const WAIT_MAX: Duration = Duration::from_millis(300);
/// Opens after five consecutive failures, for 5 s to 1 min: deliveries that become due meanwhile wait for their next
/// attempt.
const BREAKER: BreakerOptions = BreakerOptions {
    failures_max: 5,
    open_first: Duration::from_secs(5),
    open_max: Duration::from_mins(1),
};
/// Tracked endpoints. Beyond it, idle endpoints with a closed breaker are dropped.
const ENDPOINTS_MAX: usize = 2_000;

/// Limits and health of all endpoints, as seen by this process. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct EndpointLimiter {
    /// A std mutex: locked for a map access, never across an await.
    endpoints: Arc<Mutex<HashMap<Name, EndpointState>>>,
    /// Delivery slots of this process.
    slots: usize,
}

#[derive(Debug)]
struct EndpointState {
    in_flight: usize,
    breaker: CircuitBreaker,
    /// Last claim of deliveries while the breaker was open.
    probed_at: Option<Timestamp>,
    waiting: usize,
    /// Latency of the last response.
    latency: Option<Duration>,
    /// Notified when a permit is released.
    freed: Arc<Notify>,
}

impl Default for EndpointState {
    fn default() -> Self {
        Self {
            in_flight: 0,
            breaker: CircuitBreaker::new(BREAKER),
            probed_at: None,
            waiting: 0,
            latency: None,
            freed: Arc::default(),
        }
    }
}

impl EndpointState {
    fn has_failed(&self, now: Timestamp) -> bool {
        self.breaker.state(now.into()) != BreakerState::Closed { failures: 0 }
    }

    /// Returns whether the last request failed or there was no response yet.
    fn is_suspect(&self, now: Timestamp) -> bool {
        self.latency.is_none() || self.has_failed(now)
    }

    fn window(&mut self, now: Timestamp) -> usize {
        match (self.breaker.state(now.into()), self.latency) {
            (BreakerState::Open, _) => {
                if self.probed_at.is_some_and(|last| now < last.after(PROBE_INTERVAL)) {
                    return 0;
                }
                self.probed_at = Some(now);
                PROBE_WINDOW
            }
            (BreakerState::HalfOpen | BreakerState::Closed { failures: 1.. }, _) => 1,
            (BreakerState::Closed { failures: 0 }, None) => INITIAL_WINDOW,
            (BreakerState::Closed { failures: 0 }, Some(took)) if took <= FAST_RESPONSE => {
                FAST_WINDOW
            }
            (BreakerState::Closed { failures: 0 }, Some(_)) => IN_FLIGHT_MAX,
        }
    }
}

#[derive(Debug)]
pub(super) enum Acquire {
    Acquired(EndpointPermit),
    /// All permits of the endpoint are in use.
    Full,
    /// The circuit breaker is open until this time.
    BreakerOpen(Timestamp),
}

/// Permission for one request to an endpoint, released on drop.
#[derive(Debug)]
pub(super) struct EndpointPermit {
    limits: EndpointLimiter,
    endpoint_name: Name,
    breaker: circuit_breaker::BreakerPermit,
}

impl EndpointLimiter {
    /// Creates the limits of a process with this many delivery slots.
    pub(super) fn new(slots: usize) -> Self {
        Self { endpoints: Arc::default(), slots }
    }

    /// Returns the windows of all endpoints. Endpoints that may hang get nothing more while they occupy half of the slots.
    pub(super) fn windows(
        &self,
        in_flight: &HashMap<Name, usize>,
        now: Timestamp,
    ) -> QueueCapacity {
        let mut limits = self.lock();
        let is_suspect =
            |name: &Name| limits.get(name).is_none_or(|endpoint| endpoint.is_suspect(now));
        let suspects = in_flight.iter().filter(|(name, _)| is_suspect(name));
        let crowded = suspects.map(|(_, jobs)| jobs).sum::<usize>() >= self.slots / 2;
        let window = |endpoint: &mut EndpointState| {
            if crowded && endpoint.is_suspect(now) { 0 } else { endpoint.window(now) }
        };
        let known =
            limits.iter_mut().map(|(name, endpoint)| (name.clone(), window(endpoint))).collect();
        QueueCapacity { each: if crowded { 0 } else { INITIAL_WINDOW }, known }
    }

    /// Acquires a permit, waiting briefly, because snoozing a delivery costs the store two writes. Does not wait for a
    /// failing endpoint.
    pub(super) async fn acquire_soon(&self, endpoint_name: &Name, clock: &Clock) -> Acquire {
        let until = clock.now().after(WAIT_MAX);
        loop {
            match self.acquire(endpoint_name, clock.now()) {
                Acquire::Full => {}
                result @ (Acquire::Acquired(_) | Acquire::BreakerOpen(_)) => return result,
            }
            let Some(waiting) = WaitGuard::register(self, endpoint_name, clock.now()) else {
                return Acquire::Full;
            };
            tokio::select! {
                () = waiting.freed.notified() => {}
                () = clock.sleep_until(until) => return Acquire::Full,
            }
        }
    }

    pub(super) fn acquire(&self, endpoint_name: &Name, now: Timestamp) -> Acquire {
        let mut limits = self.lock();
        if limits.len() >= ENDPOINTS_MAX {
            limits.retain(|_, endpoint| {
                let is_open = endpoint.breaker.state(now.into()) == BreakerState::Open;
                endpoint.in_flight + endpoint.waiting > 0 || is_open
            });
        }
        let endpoint = limits.entry(endpoint_name.clone()).or_default();
        let breaker = match endpoint.breaker.acquire(now.into()) {
            Ok(permit) => permit,
            Err(wait) => return Acquire::BreakerOpen(now.after(wait)),
        };
        if endpoint.in_flight >= IN_FLIGHT_MAX {
            return Acquire::Full;
        }
        endpoint.in_flight += 1;
        Acquire::Acquired(EndpointPermit {
            limits: self.clone(),
            endpoint_name: endpoint_name.clone(),
            breaker,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, EndpointState>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registration of a waiting delivery, removed on drop.
struct WaitGuard<'a> {
    limits: &'a EndpointLimiter,
    endpoint_name: &'a Name,
    freed: Arc<Notify>,
}

impl<'a> WaitGuard<'a> {
    fn register(
        limits: &'a EndpointLimiter,
        endpoint_name: &'a Name,
        now: Timestamp,
    ) -> Option<Self> {
        let mut all = limits.lock();
        let endpoint = all.get_mut(endpoint_name)?;
        if endpoint.has_failed(now) || endpoint.waiting >= WAITING_MAX {
            return None;
        }
        endpoint.waiting += 1;
        Some(Self { limits, endpoint_name, freed: Arc::clone(&endpoint.freed) })
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        if let Some(endpoint) = self.limits.lock().get_mut(self.endpoint_name) {
            endpoint.waiting = endpoint.waiting.saturating_sub(1);
        }
    }
}

impl EndpointPermit {
    /// Records a response after this time, whatever its status.
    pub(super) fn success(&self, took: Duration) {
        self.breaker.success();
        if let Some(endpoint) = self.limits.lock().get_mut(&self.endpoint_name) {
            endpoint.probed_at = None;
            endpoint.latency = Some(took);
        }
    }

    /// Records that the endpoint was unreachable, timed out or failed.
    pub(super) fn failure(&self, now: Timestamp) {
        self.breaker.failure(now.into());
    }
}

impl Drop for EndpointPermit {
    fn drop(&mut self) {
        let mut limits = self.limits.lock();
        if let Some(endpoint) = limits.get_mut(&self.endpoint_name) {
            endpoint.in_flight = endpoint.in_flight.saturating_sub(1);
            endpoint.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST_LATENCY: Duration = Duration::from_millis(3);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0).after(Duration::from_secs(seconds))
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn limits() -> EndpointLimiter {
        EndpointLimiter::new(64)
    }

    fn open(
        limits: &EndpointLimiter,
        endpoint_name: &str,
        now: Timestamp,
    ) -> Option<EndpointPermit> {
        match limits.acquire(&name(endpoint_name), now) {
            Acquire::Acquired(pass) => Some(pass),
            Acquire::Full | Acquire::BreakerOpen(_) => None,
        }
    }

    fn window(limits: &EndpointLimiter, endpoint_name: &str, now: Timestamp) -> usize {
        limits.windows(&HashMap::new(), now).of(&name(endpoint_name))
    }

    #[test]
    fn endpoint_permits_are_independent() {
        let limits = limits();
        let held: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| open(&limits, "a", at(0)).unwrap()).collect();
        assert!(matches!(limits.acquire(&name("a"), at(0)), Acquire::Full));
        assert!(open(&limits, "b", at(0)).is_some());
        drop(held);
        assert!(open(&limits, "a", at(0)).is_some());
    }

    #[tokio::test]
    async fn endpoint_permit_is_awaited_briefly() {
        let (limits, clock) = (limits(), Clock::manual(at(0)));
        let mut held: Vec<_> =
            (0..IN_FLIGHT_MAX).map(|_| open(&limits, "a", at(0)).unwrap()).collect();
        let waits = tokio::spawn({
            let (limits, clock) = (limits.clone(), clock.clone());
            async move { limits.acquire_soon(&name("a"), &clock).await }
        });
        while limits.lock().get(&name("a")).unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
        held.pop();
        assert!(matches!(waits.await.unwrap(), Acquire::Acquired(_)));
        held.push(open(&limits, "a", at(0)).unwrap());
        held[0].failure(at(0));
        assert!(matches!(limits.acquire_soon(&name("a"), &clock).await, Acquire::Full), "it fails");
    }

    #[test]
    fn open_endpoint_breaker_admits_one_probe() {
        let limits = limits();
        for _ in 0..BREAKER.failures_max {
            open(&limits, "a", at(0)).unwrap().failure(at(0));
        }
        assert!(
            matches!(limits.acquire(&name("a"), at(4)), Acquire::BreakerOpen(until) if until == at(5))
        );
        assert!(open(&limits, "b", at(4)).is_some());
        let probe = open(&limits, "a", at(5)).unwrap();
        assert!(matches!(limits.acquire(&name("a"), at(5)), Acquire::BreakerOpen(_)));
        probe.failure(at(5));
        drop(probe);
        assert!(matches!(limits.acquire(&name("a"), at(14)), Acquire::BreakerOpen(_)));
        let probe = open(&limits, "a", at(15)).unwrap();
        probe.success(FAST_LATENCY);
        drop(probe);
        assert!(open(&limits, "a", at(15)).is_some());
    }

    #[test]
    fn dropped_endpoint_probe_admits_the_next() {
        let limits = limits();
        for _ in 0..BREAKER.failures_max {
            open(&limits, "a", at(0)).unwrap().failure(at(0));
        }
        drop(open(&limits, "a", at(9)).unwrap());
        assert!(open(&limits, "a", at(9)).is_some());
    }

    #[test]
    fn endpoint_window_depends_on_latency() {
        let limits = limits();
        assert_eq!(window(&limits, "a", at(0)), INITIAL_WINDOW);
        let pass = open(&limits, "a", at(0)).unwrap();
        assert_eq!(window(&limits, "a", at(0)), INITIAL_WINDOW);
        pass.success(FAST_LATENCY);
        assert_eq!(window(&limits, "a", at(0)), FAST_WINDOW);
        pass.success(Duration::from_secs(1));
        assert_eq!(window(&limits, "a", at(0)), IN_FLIGHT_MAX);
        pass.failure(at(0));
        assert_eq!(window(&limits, "a", at(0)), 1);
    }

    #[test]
    fn open_endpoint_breaker_limits_claims_to_the_probe_window() {
        let limits = limits();
        for _ in 0..BREAKER.failures_max {
            open(&limits, "a", at(0)).unwrap().failure(at(0));
        }
        let windows = [0, 0, 1, 1, 5, 5].map(|second| window(&limits, "a", at(second)));
        assert_eq!(windows, [PROBE_WINDOW, 0, PROBE_WINDOW, 0, 1, 1]);
    }

    #[test]
    fn suspect_endpoints_share_half_of_the_slots() {
        let limits = EndpointLimiter::new(4);
        open(&limits, "well", at(0)).unwrap().success(FAST_LATENCY);
        open(&limits, "ill", at(0)).unwrap().failure(at(0));
        let of = |in_flight: &[(&str, usize)]| {
            let in_flight = in_flight.iter().map(|(one, jobs)| (name(one), *jobs)).collect();
            let windows = limits.windows(&in_flight, at(0));
            ["well", "ill", "new"].map(|one| windows.of(&name(one)))
        };
        assert_eq!(of(&[("well", 4), ("new", 1)]), [FAST_WINDOW, 1, INITIAL_WINDOW]);
        assert_eq!(of(&[("new", 1), ("ill", 1)]), [FAST_WINDOW, 0, 0]);
    }

    #[test]
    fn idle_endpoints_are_dropped_beyond_the_limit() {
        let limits = limits();
        for _ in 0..BREAKER.failures_max {
            open(&limits, "dead", at(0)).unwrap().failure(at(0));
        }
        let _busy = open(&limits, "busy", at(0)).unwrap();
        for place in 0..2 * ENDPOINTS_MAX {
            open(&limits, &format!("r{place}"), at(1)).unwrap().success(FAST_LATENCY);
        }
        let known = limits.lock();
        assert!(known.len() <= ENDPOINTS_MAX);
        assert!(known.contains_key(&name("dead")) && known.contains_key(&name("busy")));
    }
}
