//! Keeps receivers apart: each has a few places and a breaker, so that one that hangs or is down costs the
//! others nothing.
//!
//! How many of a receiver's deliveries are claimed at once is its *window*. A receiver that nobody has heard of
//! yet begins with two; one that answers quickly gets many, so that it never waits for the store; one that
//! failed gets a single one. So a hundred that hang hold two hundred places, not all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::job::Name;
use longhaul::store::QueueCapacity;
use longhaul::{Clock, Timestamp};
use longhaul_net::circuit_breaker::{self, BreakerOptions, BreakerState, CircuitBreaker};
use tokio::sync::Notify;

/// Requests to one receiver at once, from this process.
const IN_FLIGHT_MAX: usize = 8;
/// The window of a receiver that answers quickly: what it has no place for is soon sent.
const QUICK: usize = 64;
/// An answer within this is quick.
const QUICK_ANSWER: Duration = Duration::from_millis(50);
/// The window of a receiver that nobody has heard of yet.
const UNHEARD: usize = 2;
/// How many deliveries are claimed at once for a receiver that is left alone: they are put off, or charged
/// with an attempt, so that they become dead letters in the end.
const TRICKLE: usize = 4;
/// And how often.
const TRICKLE_EVERY: Duration = Duration::from_secs(1);
/// Deliveries that wait here for a place at one receiver, which most have again in milliseconds.
const WAITING_MAX: usize = 64;
/// How long one waits here, with a worker's place held.
const WAIT_HERE: Duration = Duration::from_millis(300);
/// Opens after five consecutive failures, for 5 s to 1 min: deliveries that become due meanwhile wait for their next
/// attempt.
const BREAKER: BreakerOptions = BreakerOptions {
    failures_max: 5,
    open_first: Duration::from_secs(5),
    open_max: Duration::from_mins(1),
};
/// Receivers that are remembered; beyond it those that nothing is under way to are forgotten.
const KNOWN_MAX: usize = 2_000;

/// What is known of the receivers, in this process. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Gates {
    /// A std mutex: held for a map access, never across an await.
    known: Arc<Mutex<HashMap<Name, Gate>>>,
    /// Places for deliveries in this process.
    places: usize,
}

#[derive(Debug)]
struct Gate {
    in_flight: usize,
    breaker: CircuitBreaker,
    /// Last claim of deliveries while the breaker was open.
    trickled_at: Option<Timestamp>,
    waiting: usize,
    /// How long its last answer took.
    answered_in: Option<Duration>,
    /// Told when a place is free.
    freed: Arc<Notify>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            in_flight: 0,
            breaker: CircuitBreaker::new(BREAKER),
            trickled_at: None,
            waiting: 0,
            answered_in: None,
            freed: Arc::default(),
        }
    }
}

impl Gate {
    fn has_failed(&self, now: Timestamp) -> bool {
        self.breaker.state(now.into()) != BreakerState::Closed { failures: 0 }
    }

    /// Returns true if the last request failed or none was answered yet.
    fn is_suspect(&self, now: Timestamp) -> bool {
        self.answered_in.is_none() || self.has_failed(now)
    }

    fn window(&mut self, now: Timestamp) -> usize {
        match (self.breaker.state(now.into()), self.answered_in) {
            (BreakerState::Open, _) => {
                if self.trickled_at.is_some_and(|last| now < last.after(TRICKLE_EVERY)) {
                    return 0;
                }
                self.trickled_at = Some(now);
                TRICKLE
            }
            (BreakerState::HalfOpen | BreakerState::Closed { failures: 1.. }, _) => 1,
            (BreakerState::Closed { failures: 0 }, None) => UNHEARD,
            (BreakerState::Closed { failures: 0 }, Some(took)) if took <= QUICK_ANSWER => QUICK,
            (BreakerState::Closed { failures: 0 }, Some(_)) => IN_FLIGHT_MAX,
        }
    }
}

/// Whether a delivery may be sent now.
#[derive(Debug)]
pub(super) enum Entry {
    /// It may.
    Open(Pass),
    /// As many are under way as may be: it has to wait for a place.
    Full,
    /// The receiver has failed again and again and is left alone until then.
    Alone(Timestamp),
}

/// A place at a receiver; free again when dropped, also by a handler that is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    gates: Gates,
    receiver: Name,
    breaker: circuit_breaker::Permit,
}

impl Gates {
    /// Gates for a process that has so many places.
    pub(super) fn new(places: usize) -> Self {
        Self { known: Arc::default(), places }
    }

    /// How many deliveries to each receiver may be under way at once, by how many are. Those that may hang
    /// get nothing more while they have half of all places.
    pub(super) fn windows(
        &self,
        under_way: &HashMap<Name, usize>,
        now: Timestamp,
    ) -> QueueCapacity {
        let mut gates = self.lock();
        let is_suspect = |name: &Name| gates.get(name).is_none_or(|gate| gate.is_suspect(now));
        let suspects = under_way.iter().filter(|(name, _)| is_suspect(name));
        let crowded = suspects.map(|(_, jobs)| jobs).sum::<usize>() >= self.places / 2;
        let window = |gate: &mut Gate| {
            if crowded && gate.is_suspect(now) { 0 } else { gate.window(now) }
        };
        let known = gates.iter_mut().map(|(name, gate)| (name.clone(), window(gate))).collect();
        QueueCapacity { each: if crowded { 0 } else { UNHEARD }, known }
    }

    /// The same as [`enter`](Self::enter), once there is a place if that is soon: putting a delivery off costs
    /// the store two writes. Nobody waits for a receiver that fails.
    pub(super) async fn enter_soon(&self, receiver: &Name, clock: &Clock) -> Entry {
        let until = clock.now().after(WAIT_HERE);
        loop {
            match self.enter(receiver, clock.now()) {
                Entry::Full => {}
                entry @ (Entry::Open(_) | Entry::Alone(_)) => return entry,
            }
            let Some(waiting) = Waiting::at(self, receiver, clock.now()) else {
                return Entry::Full;
            };
            tokio::select! {
                () = waiting.freed.notified() => {}
                () = clock.sleep_until(until) => return Entry::Full,
            }
        }
    }

    pub(super) fn enter(&self, receiver: &Name, now: Timestamp) -> Entry {
        let mut gates = self.lock();
        if gates.len() >= KNOWN_MAX {
            gates.retain(|_, gate| {
                let is_open = gate.breaker.state(now.into()) == BreakerState::Open;
                gate.in_flight + gate.waiting > 0 || is_open
            });
        }
        let gate = gates.entry(receiver.clone()).or_default();
        let breaker = match gate.breaker.acquire(now.into()) {
            Ok(permit) => permit,
            Err(wait) => return Entry::Alone(now.after(wait)),
        };
        if gate.in_flight >= IN_FLIGHT_MAX {
            return Entry::Full;
        }
        gate.in_flight += 1;
        Entry::Open(Pass { gates: self.clone(), receiver: receiver.clone(), breaker })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Gate>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that waits for a place; no longer when dropped.
struct Waiting<'a> {
    gates: &'a Gates,
    receiver: &'a Name,
    freed: Arc<Notify>,
}

impl<'a> Waiting<'a> {
    fn at(gates: &'a Gates, receiver: &'a Name, now: Timestamp) -> Option<Self> {
        let mut all = gates.lock();
        let gate = all.get_mut(receiver)?;
        if gate.has_failed(now) || gate.waiting >= WAITING_MAX {
            return None;
        }
        gate.waiting += 1;
        Some(Self { gates, receiver, freed: Arc::clone(&gate.freed) })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.gates.lock().get_mut(self.receiver) {
            gate.waiting = gate.waiting.saturating_sub(1);
        }
    }
}

impl Pass {
    /// Records an answer after this time, whatever its status.
    pub(super) fn well(&self, took: Duration) {
        self.breaker.success();
        if let Some(gate) = self.gates.lock().get_mut(&self.receiver) {
            gate.trickled_at = None;
            gate.answered_in = Some(took);
        }
    }

    /// Records that the receiver was unreachable, hung or failed.
    pub(super) fn failed(&self, now: Timestamp) {
        self.breaker.failure(now.into());
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut gates = self.gates.lock();
        if let Some(gate) = gates.get_mut(&self.receiver) {
            gate.in_flight = gate.in_flight.saturating_sub(1);
            gate.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICKLY: Duration = Duration::from_millis(3);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0).after(Duration::from_secs(seconds))
    }

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn gates() -> Gates {
        Gates::new(64)
    }

    fn open(gates: &Gates, receiver: &str, now: Timestamp) -> Option<Pass> {
        match gates.enter(&name(receiver), now) {
            Entry::Open(pass) => Some(pass),
            Entry::Full | Entry::Alone(_) => None,
        }
    }

    fn window(gates: &Gates, receiver: &str, now: Timestamp) -> usize {
        gates.windows(&HashMap::new(), now).of(&name(receiver))
    }

    #[test]
    fn each_receiver_has_its_own_places() {
        let gates = gates();
        let held: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| open(&gates, "a", at(0)).unwrap()).collect();
        assert!(matches!(gates.enter(&name("a"), at(0)), Entry::Full));
        assert!(open(&gates, "b", at(0)).is_some());
        drop(held);
        assert!(open(&gates, "a", at(0)).is_some());
    }

    #[tokio::test]
    async fn place_that_is_soon_free_is_waited_for() {
        let (gates, clock) = (gates(), Clock::manual(at(0)));
        let mut held: Vec<_> =
            (0..IN_FLIGHT_MAX).map(|_| open(&gates, "a", at(0)).unwrap()).collect();
        let waits = tokio::spawn({
            let (gates, clock) = (gates.clone(), clock.clone());
            async move { gates.enter_soon(&name("a"), &clock).await }
        });
        while gates.lock().get(&name("a")).unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
        held.pop();
        assert!(matches!(waits.await.unwrap(), Entry::Open(_)));
        held.push(open(&gates, "a", at(0)).unwrap());
        held[0].failed(at(0));
        assert!(matches!(gates.enter_soon(&name("a"), &clock).await, Entry::Full), "it fails");
    }

    #[test]
    fn receiver_that_keeps_failing_is_left_alone_and_tried_by_one() {
        let gates = gates();
        for _ in 0..BREAKER.failures_max {
            open(&gates, "a", at(0)).unwrap().failed(at(0));
        }
        assert!(matches!(gates.enter(&name("a"), at(4)), Entry::Alone(until) if until == at(5)));
        assert!(open(&gates, "b", at(4)).is_some());
        let probe = open(&gates, "a", at(5)).unwrap();
        assert!(matches!(gates.enter(&name("a"), at(5)), Entry::Alone(_)));
        probe.failed(at(5));
        drop(probe);
        assert!(matches!(gates.enter(&name("a"), at(14)), Entry::Alone(_)));
        let probe = open(&gates, "a", at(15)).unwrap();
        probe.well(QUICKLY);
        drop(probe);
        assert!(open(&gates, "a", at(15)).is_some());
    }

    #[test]
    fn dropped_probe_lets_the_next_one_try() {
        let gates = gates();
        for _ in 0..BREAKER.failures_max {
            open(&gates, "a", at(0)).unwrap().failed(at(0));
        }
        drop(open(&gates, "a", at(9)).unwrap());
        assert!(open(&gates, "a", at(9)).is_some());
    }

    #[test]
    fn window_is_as_wide_as_the_receiver_is_quick() {
        let gates = gates();
        assert_eq!(window(&gates, "a", at(0)), UNHEARD);
        let pass = open(&gates, "a", at(0)).unwrap();
        assert_eq!(window(&gates, "a", at(0)), UNHEARD);
        pass.well(QUICKLY);
        assert_eq!(window(&gates, "a", at(0)), QUICK);
        pass.well(Duration::from_secs(1));
        assert_eq!(window(&gates, "a", at(0)), IN_FLIGHT_MAX);
        pass.failed(at(0));
        assert_eq!(window(&gates, "a", at(0)), 1);
    }

    #[test]
    fn deliveries_to_one_that_is_left_alone_trickle_and_one_tries_afterwards() {
        let gates = gates();
        for _ in 0..BREAKER.failures_max {
            open(&gates, "a", at(0)).unwrap().failed(at(0));
        }
        let windows = [0, 0, 1, 1, 5, 5].map(|second| window(&gates, "a", at(second)));
        assert_eq!(windows, [TRICKLE, 0, TRICKLE, 0, 1, 1]);
    }

    #[test]
    fn receivers_that_may_hang_have_half_of_the_places_together() {
        let gates = Gates::new(4);
        open(&gates, "well", at(0)).unwrap().well(QUICKLY);
        open(&gates, "ill", at(0)).unwrap().failed(at(0));
        let of = |under_way: &[(&str, usize)]| {
            let under_way = under_way.iter().map(|(one, jobs)| (name(one), *jobs)).collect();
            let windows = gates.windows(&under_way, at(0));
            ["well", "ill", "new"].map(|one| windows.of(&name(one)))
        };
        assert_eq!(of(&[("well", 4), ("new", 1)]), [QUICK, 1, UNHEARD]);
        assert_eq!(of(&[("new", 1), ("ill", 1)]), [QUICK, 0, 0]);
    }

    #[test]
    fn receivers_are_forgotten_when_there_are_many() {
        let gates = gates();
        for _ in 0..BREAKER.failures_max {
            open(&gates, "dead", at(0)).unwrap().failed(at(0));
        }
        let _busy = open(&gates, "busy", at(0)).unwrap();
        for place in 0..2 * KNOWN_MAX {
            open(&gates, &format!("r{place}"), at(1)).unwrap().well(QUICKLY);
        }
        let known = gates.lock();
        assert!(known.len() <= KNOWN_MAX);
        assert!(known.contains_key(&name("dead")) && known.contains_key(&name("busy")));
    }
}
