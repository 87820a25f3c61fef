//! How many jobs may run at once, in all and by kind.
//!
//! A handler that has returned makes room for the next at once, while the store is still being told how it
//! ended: otherwise a replica with work to do would wait for every sync. Should the store fall behind, as
//! many ended attempts as there are places may wait for it, and then nothing more is claimed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::Kind;
use crate::job::Name;
use crate::store::KindRoom;

/// Counts what runs in this process.
#[derive(Debug)]
pub(super) struct Slots {
    total: usize,
    kinds: Vec<KindRoom>,
    /// A std mutex: held for counting, never across an await.
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_kind: HashMap<Name, usize>,
    /// Of the total, what claims that are under way may bring.
    reserved: usize,
    /// Attempts whose handlers have returned and whose ends are not in the store yet.
    ending: usize,
}

/// Room for what a claim may bring; free again when dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    slots: Arc<Slots>,
    limit: usize,
    /// Only kinds that have room.
    kinds: Vec<KindRoom>,
}

/// One taken place; free again when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    kind: Name,
}

/// An attempt that is about to end.
#[derive(Debug)]
pub(super) struct Ending(Arc<Slots>);

impl Slots {
    pub(super) fn new<'a>(total: usize, kinds: impl Iterator<Item = &'a Arc<Kind>>) -> Self {
        let kinds = kinds
            .filter(|kind| kind.runs_here())
            .filter_map(|kind| {
                let room = kind.concurrency.unwrap_or(total).min(total);
                let code_version = kind.code_version.clone();
                Some(KindRoom { kind: kind.checked_name().ok()?, room, code_version })
            })
            .collect();
        Self { total, kinds, taken: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps room for a claim of at least and at most so many jobs, if there is any.
    pub(super) fn reserve(self: &Arc<Self>, at_least: usize, at_most: usize) -> Option<Reserved> {
        let mut taken = self.lock();
        let behind = taken.ending.saturating_sub(self.total);
        let free = self.total.saturating_sub(taken.total + behind);
        let limit = free.min(at_most);
        let mut kinds = self.kinds.clone();
        for kind in &mut kinds {
            let running = taken.by_kind.get(&kind.kind).copied().unwrap_or(0);
            kind.room = kind.room.saturating_sub(running).min(limit);
        }
        kinds.retain(|kind| kind.room > 0);
        if limit < at_least || kinds.is_empty() {
            return None;
        }
        taken.total += limit;
        taken.reserved += limit;
        for kind in &kinds {
            *taken.by_kind.entry(kind.kind.clone()).or_default() += kind.room;
        }
        drop(taken);
        Some(Reserved { slots: Arc::clone(self), limit, kinds })
    }

    /// How many handlers run.
    pub(super) fn running(&self) -> usize {
        let taken = self.lock();
        taken.total - taken.reserved
    }

    pub(super) fn take(self: &Arc<Self>, kind: &Name) -> Slot {
        let mut taken = self.lock();
        taken.total += 1;
        *taken.by_kind.entry(kind.clone()).or_default() += 1;
        Slot { slots: Arc::clone(self), kind: kind.clone() }
    }
}

impl Reserved {
    /// The most jobs, of all kinds together.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn kinds(&self) -> &[KindRoom] {
        &self.kinds
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.total -= self.limit;
        taken.reserved -= self.limit;
        for kind in &self.kinds {
            taken.give_back(&kind.kind, kind.room);
        }
    }
}

impl Taken {
    fn give_back(&mut self, kind: &Name, count: usize) {
        if let Some(running) = self.by_kind.get_mut(kind) {
            *running -= count;
        }
    }
}

impl Slot {
    /// Gives the place to another; the attempt itself goes on until the store knows its end.
    pub(super) fn ending(self) -> Ending {
        self.slots.lock().ending += 1;
        Ending(Arc::clone(&self.slots))
    }
}

impl Ending {
    /// Whether this end makes room, because too many were waiting for theirs.
    pub(super) fn makes_room(&self) -> bool {
        self.0.lock().ending > self.0.total
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.lock().ending -= 1;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.total -= 1;
        taken.give_back(&self.kind, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn slots(total: usize, kinds: &[(&str, usize)]) -> Arc<Slots> {
        let room = |(kind, room): &(&str, usize)| KindRoom {
            kind: name(kind),
            room: *room,
            code_version: None,
        };
        Arc::new(Slots { total, kinds: kinds.iter().map(room).collect(), taken: Mutex::default() })
    }

    #[test]
    fn two_claims_share_what_is_free() {
        let slots = slots(5, &[("a", 5)]);
        let first = slots.reserve(1, 3).unwrap();
        let second = slots.reserve(1, 3).unwrap();
        assert_eq!((first.limit(), second.limit()), (3, 2));
        assert!(slots.reserve(1, 3).is_none());
        assert_eq!(slots.running(), 0);
        drop(first);
        assert_eq!(slots.reserve(1, 9).unwrap().limit(), 3);
    }

    #[test]
    fn small_room_is_not_worth_a_further_claim() {
        let slots = slots(5, &[("a", 5)]);
        let _first = slots.reserve(1, 3).unwrap();
        assert!(slots.reserve(3, 9).is_none());
        assert_eq!(slots.reserve(2, 9).unwrap().limit(), 2);
    }

    #[test]
    fn kinds_without_room_are_left_out() {
        let slots = slots(4, &[("a", 1), ("b", 4)]);
        let _running = slots.take(&name("a"));
        let reserved = slots.reserve(1, 9).unwrap();
        assert_eq!(reserved.limit(), 3);
        let kinds: Vec<_> =
            reserved.kinds().iter().map(|kind| (kind.kind.as_str(), kind.room)).collect();
        assert_eq!(kinds, [("b", 3)]);
    }

    #[test]
    fn ended_handlers_make_room_until_the_store_is_too_far_behind() {
        let slots = slots(2, &[("a", 2)]);
        let end = || slots.take(&name("a")).ending();
        let mut behind = vec![end(), end()];
        assert_eq!(slots.running(), 0);
        assert_eq!(slots.reserve(1, 9).unwrap().limit(), 2);
        behind.push(end());
        assert_eq!(slots.reserve(1, 9).unwrap().limit(), 1);
        behind.push(end());
        assert!(slots.reserve(1, 9).is_none());
        assert!(behind.iter().all(Ending::makes_room));
        behind.truncate(2);
        assert!(!behind.iter().any(Ending::makes_room));
        assert_eq!(slots.reserve(1, 9).unwrap().limit(), 2);
    }
}
