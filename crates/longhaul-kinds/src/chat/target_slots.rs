//! Concurrency slots of chat targets, served first come, first served.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use longhaul::Clock;
use longhaul_net::circuit_breaker::{BreakerOptions, BreakerState, CircuitBreaker};
use tokio::sync::oneshot;

/// Time for which other targets are preferred to one that failed.
const AVOID_FOR: Duration = Duration::from_secs(10);
const BREAKER: BreakerOptions =
    BreakerOptions { failures_max: 1, open_first: AVOID_FOR, open_max: AVOID_FOR };

/// Slots of all targets in this process. Every replica counts for itself.
#[derive(Debug, Clone)]
pub(super) struct TargetSlots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    /// A std mutex: held for a few field writes, never across an await.
    state: Mutex<SlotState>,
}

#[derive(Debug)]
struct SlotState {
    targets: Vec<TargetState>,
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct TargetState {
    slots: usize,
    used: usize,
    breaker: CircuitBreaker,
}

#[derive(Debug)]
struct Waiter {
    targets: Vec<usize>,
    slot: oneshot::Sender<TargetSlot>,
}

/// One slot at a target. Dropping it hands it to the next waiter.
#[derive(Debug)]
pub(super) struct TargetSlot {
    slots: TargetSlots,
    target: usize,
}

impl TargetSlots {
    /// Creates this many slots for each target.
    pub(super) fn new(slots: impl IntoIterator<Item = usize>, clock: Clock) -> Self {
        let target = |slots| TargetState { slots, used: 0, breaker: CircuitBreaker::new(BREAKER) };
        let targets = slots.into_iter().map(target).collect();
        let state = Mutex::new(SlotState { targets, waiters: VecDeque::new() });
        Self(Arc::new(Inner { clock, state }))
    }

    /// Waits for a slot at one of these targets: the least busy one, and one that did not fail
    /// recently if there is any. Returns `None` if no such target exists.
    pub(super) async fn acquire(&self, targets: &[usize]) -> Option<TargetSlot> {
        let slot = {
            let now = self.0.clock.now().into();
            let mut state = self.lock();
            let targets = state.preferred(targets, now);
            if targets.is_empty() {
                return None;
            }
            // Taking a free slot overtakes no waiter, because waiters wait for full targets only.
            if let Some(target) = state.take_free(&targets) {
                return Some(TargetSlot { slots: self.clone(), target });
            }
            let (sender, receiver) = oneshot::channel();
            state.waiters.push_back(Waiter { targets, slot: sender });
            receiver
        };
        slot.await.ok()
    }

    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.lock().waiters.len()
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a slot to the first waiter for this target.
    fn release(&self, target: usize) {
        let next = {
            let mut state = self.lock();
            state.waiters.retain(|waiter| !waiter.slot.is_closed());
            let wants = |waiter: &Waiter| waiter.targets.contains(&target);
            let next = state.waiters.iter().position(wants);
            let next = next.and_then(|first| state.waiters.remove(first));
            if let (None, Some(target)) = (&next, state.targets.get_mut(target)) {
                target.used = target.used.saturating_sub(1);
            }
            next
        };
        if let Some(Waiter { slot, .. }) = next {
            // A waiter that is cancelled at this moment drops the slot, which releases it again.
            drop(slot.send(TargetSlot { slots: self.clone(), target }));
        }
    }
}

impl SlotState {
    fn preferred(&self, targets: &[usize], now: SystemTime) -> Vec<usize> {
        let is_open = |target: &TargetState| target.breaker.state(now) == BreakerState::Open;
        let known = || targets.iter().filter_map(|index| Some((*index, self.targets.get(*index)?)));
        let healthy: Vec<usize> =
            known().filter(|(_, target)| !is_open(target)).map(|(index, _)| index).collect();
        if healthy.is_empty() { known().map(|(index, _)| index).collect() } else { healthy }
    }

    /// Takes a slot at the target with the smallest share of used slots.
    fn take_free(&mut self, targets: &[usize]) -> Option<usize> {
        let known = targets.iter().filter_map(|index| Some((*index, self.targets.get(*index)?)));
        let free = known.filter(|(_, target)| target.used < target.slots);
        let (least, _) =
            free.min_by_key(|(_, target)| target.used.saturating_mul(1_000) / target.slots.max(1))?;
        self.targets.get_mut(least)?.used += 1;
        Some(least)
    }
}

impl TargetSlot {
    pub(super) fn target(&self) -> usize {
        self.target
    }

    /// Records that the target is unreachable, so that others are preferred for a while.
    pub(super) fn failure(&self) {
        let now = self.slots.0.clock.now().into();
        if let Some(target) = self.slots.lock().targets.get(self.target) {
            target.breaker.failure(now);
        }
    }

    pub(super) fn success(&self) {
        if let Some(target) = self.slots.lock().targets.get(self.target) {
            target.breaker.success();
        }
    }
}

impl Drop for TargetSlot {
    fn drop(&mut self) {
        self.slots.release(self.target);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use longhaul::Timestamp;

    use super::*;

    fn slots(counts: &[usize]) -> TargetSlots {
        TargetSlots::new(counts.iter().copied(), Clock::manual(Timestamp::from_millis(0)))
    }

    async fn acquire(slots: &TargetSlots, targets: &[usize]) -> (TargetSlot, usize) {
        let slot = slots.acquire(targets).await.unwrap();
        let target = slot.target();
        (slot, target)
    }

    #[tokio::test]
    async fn least_busy_target_is_preferred() {
        let slots = slots(&[2, 4]);
        let mut taken = Vec::new();
        for _ in 0..6 {
            taken.push(acquire(&slots, &[0, 1]).await);
        }
        let order: Vec<usize> = taken.iter().map(|(_, target)| *target).collect();
        assert_eq!(order, [0, 1, 1, 0, 1, 1]);
    }

    #[tokio::test]
    async fn waiters_of_one_target_are_served_in_order_and_do_not_delay_other_targets() {
        let slots = slots(&[1, 1]);
        let (first, _) = acquire(&slots, &[0]).await;
        let mut second = Box::pin(slots.acquire(&[0]));
        let mut third = Box::pin(slots.acquire(&[0]));
        assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
        let (_other, target) = acquire(&slots, &[0, 1]).await;
        assert_eq!(target, 1);
        drop(first);
        assert!(poll!(&mut third).is_pending());
        let second = second.await.unwrap();
        drop(second);
        assert_eq!(third.await.unwrap().target(), 0);
    }

    #[tokio::test]
    async fn cancelled_waiter_does_not_lose_its_slot() {
        let slots = slots(&[1]);
        let (first, _) = acquire(&slots, &[0]).await;
        let mut cancelled = Box::pin(slots.acquire(&[0]));
        let mut served_and_cancelled = Box::pin(slots.acquire(&[0]));
        let mut last = Box::pin(slots.acquire(&[0]));
        assert!(
            poll!(&mut cancelled).is_pending() && poll!(&mut served_and_cancelled).is_pending()
        );
        assert!(poll!(&mut last).is_pending());
        drop(cancelled);
        drop(first);
        // The slot was sent, and its receiver never polls again.
        drop(served_and_cancelled);
        assert_eq!(last.await.unwrap().target(), 0);
        assert_eq!(slots.waiting(), 0);
    }

    #[tokio::test]
    async fn failed_target_is_avoided_for_a_while_unless_it_is_the_only_one() {
        let slots = slots(&[1, 1]);
        let (slot, target) = acquire(&slots, &[0, 1]).await;
        slot.failure();
        drop(slot);
        assert_eq!(target, 0);
        assert_eq!(acquire(&slots, &[0, 1]).await.1, 1);
        assert_eq!(acquire(&slots, &[0]).await.1, 0);
        slots.0.clock.advance(AVOID_FOR);
        assert_eq!(acquire(&slots, &[0, 1]).await.1, 0);
        assert!(slots.acquire(&[]).await.is_none());
        assert!(slots.acquire(&[7]).await.is_none());
    }
}
