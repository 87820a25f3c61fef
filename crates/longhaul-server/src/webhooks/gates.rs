//! Keeps receivers apart: each has a few places and a breaker, so that one that hangs or is down costs the
//! others nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::{Clock, Timestamp};
use tokio::sync::Notify;

/// Deliveries to one receiver at once, from this process.
const IN_FLIGHT_MAX: usize = 8;
/// Deliveries that wait here for a place at one receiver, which most have again in milliseconds.
const WAITING_MAX: usize = 64;
/// How long one waits here, with a worker's place held.
const WAIT_HERE: Duration = Duration::from_millis(300);
/// Failures in a row after which a receiver is left alone for a while.
const FAILURES_MAX: u32 = 5;
/// For how long at first; it doubles.
const ALONE_FIRST: Duration = Duration::from_secs(5);
/// Not longer than this: what is due meanwhile waits for its next attempt.
const ALONE_MAX: Duration = Duration::from_mins(1);
/// When to look again whether somebody found a receiver well.
const PROBED: Duration = Duration::from_secs(1);
/// Receivers that are remembered; beyond it those that nothing is known against are forgotten.
const KNOWN_MAX: usize = 10_000;

/// What is known of the receivers, in this process. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Gates(
    /// A std mutex: held for a map access, never across an await.
    Arc<Mutex<HashMap<String, Gate>>>,
);

#[derive(Debug, Default)]
struct Gate {
    in_flight: usize,
    /// In a row.
    failures: u32,
    /// Until when it is left alone; then one may try.
    alone_until: Option<Timestamp>,
    trying: bool,
    waiting: usize,
    /// Told when a place is free.
    freed: Arc<Notify>,
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
    receiver: String,
    trying: bool,
}

impl Gates {
    /// The same as [`enter`](Self::enter), once there is a place if that is soon: putting a delivery off costs
    /// the store two writes. Nobody waits for a receiver that fails.
    pub(super) async fn enter_soon(&self, receiver: &str, clock: &Clock) -> Entry {
        let until = clock.now().after(WAIT_HERE);
        loop {
            match self.enter(receiver, clock.now()) {
                Entry::Full => {}
                entry @ (Entry::Open(_) | Entry::Alone(_)) => return entry,
            }
            let Some(waiting) = Waiting::at(self, receiver) else { return Entry::Full };
            tokio::select! {
                () = waiting.freed.notified() => {}
                () = clock.sleep_until(until) => return Entry::Full,
            }
        }
    }

    pub(super) fn enter(&self, receiver: &str, now: Timestamp) -> Entry {
        let mut gates = self.lock();
        if gates.len() >= KNOWN_MAX {
            gates.retain(|_, gate| gate.in_flight + gate.waiting > 0 || gate.failures > 0);
        }
        let gate = gates.entry(receiver.to_owned()).or_default();
        let trying = match gate.alone_until {
            Some(until) if now < until => return Entry::Alone(until),
            // Another one finds out.
            Some(_) if gate.trying => return Entry::Alone(now.after(PROBED)),
            Some(_) => true,
            None => false,
        };
        if gate.in_flight >= IN_FLIGHT_MAX {
            return Entry::Full;
        }
        gate.in_flight += 1;
        gate.trying |= trying;
        Entry::Open(Pass { gates: self.clone(), receiver: receiver.to_owned(), trying })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Gate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that waits for a place; no longer when dropped.
struct Waiting<'a> {
    gates: &'a Gates,
    receiver: &'a str,
    freed: Arc<Notify>,
}

impl<'a> Waiting<'a> {
    fn at(gates: &'a Gates, receiver: &'a str) -> Option<Self> {
        let mut all = gates.lock();
        let gate = all.get_mut(receiver)?;
        if gate.failures > 0 || gate.waiting >= WAITING_MAX {
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
    /// The receiver answered, and what it said is its own affair.
    pub(super) fn well(&self) {
        if let Some(gate) = self.gates.lock().get_mut(&self.receiver) {
            (gate.failures, gate.alone_until) = (0, None);
        }
    }

    /// The receiver was not there, hung, or broke.
    pub(super) fn failed(&self, now: Timestamp) {
        if let Some(gate) = self.gates.lock().get_mut(&self.receiver) {
            gate.failures = gate.failures.saturating_add(1);
            if gate.failures >= FAILURES_MAX {
                let doublings = (gate.failures - FAILURES_MAX).min(10);
                let alone = ALONE_FIRST.saturating_mul(1 << doublings).min(ALONE_MAX);
                gate.alone_until = Some(now.after(alone));
            }
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut gates = self.gates.lock();
        if let Some(gate) = gates.get_mut(&self.receiver) {
            gate.in_flight = gate.in_flight.saturating_sub(1);
            if self.trying {
                gate.trying = false;
            }
            gate.freed.notify_one();
            if gate.in_flight == 0 && gate.failures == 0 && gate.waiting == 0 {
                gates.remove(&self.receiver);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0).after(Duration::from_secs(seconds))
    }

    fn open(gates: &Gates, receiver: &str, now: Timestamp) -> Option<Pass> {
        match gates.enter(receiver, now) {
            Entry::Open(pass) => Some(pass),
            Entry::Full | Entry::Alone(_) => None,
        }
    }

    #[test]
    fn each_receiver_has_its_own_places() {
        let gates = Gates::default();
        let held: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| open(&gates, "a", at(0)).unwrap()).collect();
        assert!(matches!(gates.enter("a", at(0)), Entry::Full));
        assert!(open(&gates, "b", at(0)).is_some());
        drop(held);
        assert!(open(&gates, "a", at(0)).is_some());
    }

    #[tokio::test]
    async fn place_that_is_soon_free_is_waited_for() {
        let (gates, clock) = (Gates::default(), Clock::manual(at(0)));
        let mut held: Vec<_> =
            (0..IN_FLIGHT_MAX).map(|_| open(&gates, "a", at(0)).unwrap()).collect();
        let waits = tokio::spawn({
            let (gates, clock) = (gates.clone(), clock.clone());
            async move { gates.enter_soon("a", &clock).await }
        });
        while gates.lock().get("a").unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
        held.pop();
        assert!(matches!(waits.await.unwrap(), Entry::Open(_)));
        held.push(open(&gates, "a", at(0)).unwrap());
        held[0].failed(at(0));
        assert!(matches!(gates.enter_soon("a", &clock).await, Entry::Full), "it fails");
    }

    #[test]
    fn receiver_that_keeps_failing_is_left_alone_and_tried_by_one() {
        let gates = Gates::default();
        for _ in 0..FAILURES_MAX {
            open(&gates, "a", at(0)).unwrap().failed(at(0));
        }
        assert!(matches!(gates.enter("a", at(4)), Entry::Alone(until) if until == at(5)));
        assert!(open(&gates, "b", at(4)).is_some());
        let probe = open(&gates, "a", at(5)).unwrap();
        assert!(matches!(gates.enter("a", at(5)), Entry::Alone(_)));
        probe.failed(at(5));
        drop(probe);
        assert!(matches!(gates.enter("a", at(14)), Entry::Alone(_)));
        let probe = open(&gates, "a", at(15)).unwrap();
        probe.well();
        drop(probe);
        assert!(open(&gates, "a", at(15)).is_some());
        assert!(gates.lock().is_empty());
    }

    #[test]
    fn dropped_probe_lets_the_next_one_try() {
        let gates = Gates::default();
        for _ in 0..FAILURES_MAX {
            open(&gates, "a", at(0)).unwrap().failed(at(0));
        }
        drop(open(&gates, "a", at(9)).unwrap());
        assert!(open(&gates, "a", at(9)).is_some());
    }
}
