//! Who may call which target now. First come, first served.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::Clock;
use tokio::sync::oneshot;

use longhaul::Timestamp;

/// For how long others are preferred to a target that failed.
const LEFT_ALONE: Duration = Duration::from_secs(10);

/// The places at all targets, of this process: another one has its own.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    /// A std mutex: held for a few field writes, never across an await.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    targets: Vec<Room>,
    line: VecDeque<Waiter>,
}

#[derive(Debug, Clone, Copy)]
struct Room {
    places: usize,
    taken: usize,
    failing_until: Option<Timestamp>,
}

/// Somebody in line, and where it may go.
#[derive(Debug)]
struct Waiter {
    targets: Vec<usize>,
    tell: oneshot::Sender<Place>,
}

/// A place at a target, given on when dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    target: usize,
}

impl Places {
    /// So many at each target.
    pub(super) fn new(rooms: impl IntoIterator<Item = usize>, clock: Clock) -> Self {
        let room = |places| Room { places, taken: 0, failing_until: None };
        let targets = rooms.into_iter().map(room).collect();
        let state = Mutex::new(State { targets, line: VecDeque::new() });
        Self(Arc::new(Inner { clock, state }))
    }

    /// A place at one of these targets, once there is one: the least busy, of those that do not fail if there are
    /// such. None if these are no targets.
    pub(super) async fn take(&self, targets: &[usize]) -> Option<Place> {
        let waiting = {
            let now = self.0.clock.now();
            let mut state = self.lock();
            let targets = state.preferred(targets, now);
            if targets.is_empty() {
                return None;
            }
            // Whoever is in line waits for targets that are full: a free one is wanted by nobody.
            if let Some(target) = state.free(&targets) {
                return Some(Place { places: self.clone(), target });
            }
            let (tell, told) = oneshot::channel();
            state.line.push_back(Waiter { targets, tell });
            told
        };
        waiting.await.ok()
    }

    /// How many wait.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.lock().line.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a place on to the first in line who wants it.
    fn give_back(&self, target: usize) {
        let next = {
            let mut state = self.lock();
            if let Some(room) = state.targets.get_mut(target) {
                room.taken = room.taken.saturating_sub(1);
            }
            state.line.retain(|waiter| !waiter.tell.is_closed());
            let wants = |waiter: &Waiter| waiter.targets.contains(&target);
            let next = state.line.iter().position(wants).and_then(|first| state.line.remove(first));
            if let (Some(_), Some(room)) = (&next, state.targets.get_mut(target)) {
                room.taken += 1;
            }
            next
        };
        if let Some(Waiter { tell, .. }) = next {
            // Who has gone in this very moment drops it, and it is given on.
            drop(tell.send(Place { places: self.clone(), target }));
        }
    }
}

impl State {
    fn preferred(&self, targets: &[usize], now: Timestamp) -> Vec<usize> {
        let known = |target: &usize| *target < self.targets.len();
        let is_well = |target: &usize| {
            let room = self.targets.get(*target);
            room.is_some_and(|room| room.failing_until.is_none_or(|until| until <= now))
        };
        let well: Vec<usize> = targets.iter().copied().filter(is_well).collect();
        if well.is_empty() { targets.iter().copied().filter(known).collect() } else { well }
    }

    /// Takes a place at the least busy of these, if one has any.
    fn free(&mut self, targets: &[usize]) -> Option<usize> {
        let room = |target: &usize| self.targets.get(*target).copied();
        let free = targets
            .iter()
            .copied()
            .filter(|target| room(target).is_some_and(|room| room.taken < room.places));
        // By the part of its places that is taken.
        let least = free.min_by_key(|target| {
            room(target).map_or(0, |room| room.taken.saturating_mul(1_000) / room.places.max(1))
        })?;
        self.targets.get_mut(least)?.taken += 1;
        Some(least)
    }
}

impl Place {
    /// At which target.
    pub(super) fn target(&self) -> usize {
        self.target
    }

    /// It cannot be reached: others are better for a while.
    pub(super) fn failed(&self) {
        let until = self.places.0.clock.now().after(LEFT_ALONE);
        self.note(Some(until));
    }

    /// It answers.
    pub(super) fn well(&self) {
        self.note(None);
    }

    fn note(&self, failing_until: Option<Timestamp>) {
        if let Some(room) = self.places.lock().targets.get_mut(self.target) {
            room.failing_until = failing_until;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.give_back(self.target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;

    fn places(rooms: &[usize]) -> Places {
        Places::new(rooms.iter().copied(), Clock::manual(Timestamp::from_millis(0)))
    }

    async fn at(places: &Places, targets: &[usize]) -> (Place, usize) {
        let place = places.take(targets).await.unwrap();
        let target = place.target();
        (place, target)
    }

    #[tokio::test]
    async fn least_busy_target_is_taken() {
        let places = places(&[2, 4]);
        let mut taken = Vec::new();
        for _ in 0..6 {
            taken.push(at(&places, &[0, 1]).await);
        }
        let order: Vec<usize> = taken.iter().map(|(_, target)| *target).collect();
        assert_eq!(order, [0, 1, 1, 0, 1, 1]);
    }

    #[tokio::test]
    async fn line_is_served_in_order_and_nobody_is_held_up_by_who_wants_another_target() {
        let places = places(&[1, 1]);
        let (first, _) = at(&places, &[0]).await;
        let mut second = Box::pin(places.take(&[0]));
        let mut third = Box::pin(places.take(&[0]));
        assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
        let (_other, target) = at(&places, &[0, 1]).await;
        assert_eq!(target, 1);
        drop(first);
        assert!(poll!(&mut third).is_pending());
        let second = second.await.unwrap();
        drop(second);
        assert_eq!(third.await.unwrap().target(), 0);
    }

    #[tokio::test]
    async fn who_leaves_the_line_costs_nobody_a_place() {
        let places = places(&[1]);
        let (first, _) = at(&places, &[0]).await;
        let mut gone = Box::pin(places.take(&[0]));
        let mut told_and_gone = Box::pin(places.take(&[0]));
        let mut last = Box::pin(places.take(&[0]));
        assert!(poll!(&mut gone).is_pending() && poll!(&mut told_and_gone).is_pending());
        assert!(poll!(&mut last).is_pending());
        drop(gone);
        drop(first);
        // It has its place by now and leaves without having looked.
        drop(told_and_gone);
        assert_eq!(last.await.unwrap().target(), 0);
        assert_eq!(places.waiting(), 0);
    }

    #[tokio::test]
    async fn failing_target_is_left_alone_for_a_while_unless_it_is_the_only_one() {
        let places = places(&[1, 1]);
        let (place, target) = at(&places, &[0, 1]).await;
        place.failed();
        drop(place);
        assert_eq!(target, 0);
        assert_eq!(at(&places, &[0, 1]).await.1, 1);
        assert_eq!(at(&places, &[0]).await.1, 0);
        places.0.clock.advance(LEFT_ALONE);
        assert_eq!(at(&places, &[0, 1]).await.1, 0);
        assert!(places.take(&[]).await.is_none());
        assert!(places.take(&[7]).await.is_none());
    }
}
