//! Slots: how many jobs run at the same time, in total and by kind.
//!
//! A handler that returns frees its slot at once, while its attempt is still being settled;
//! otherwise a busy replica would wait for every sync. If the store falls behind, up to as many
//! attempts as there are slots may be settling, and then nothing more is claimed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::{DeliveryWindows, DeliveryWorker, Kind};
use crate::job::Name;
use crate::store::{KindCapacity, Lease, QueueCapacity};
use crate::sync::Mutex;

pub(super) struct Slots {
    total: usize,
    kinds: Vec<KindCapacity>,
    /// For deliveries: limits per queue.
    windows: Option<DeliveryWindows>,
    /// True if due jobs may be waiting for capacity: then a slot that becomes free causes a claim.
    awaited: AtomicBool,
    counts: Mutex<SlotCounts>,
}

#[derive(Debug, Default)]
struct SlotCounts {
    total: usize,
    by_kind: HashMap<Name, usize>,
    /// Only counted where queues have windows.
    by_queue: HashMap<Name, usize>,
    /// Part of the total that running claims may use.
    reserved: usize,
    /// Attempts whose handlers have returned and that are not settled yet.
    ending: usize,
}

/// Slots reserved for a claim. Dropping it frees them.
pub(crate) struct SlotReservation {
    slots: Arc<Slots>,
    /// Maximum of jobs, over all kinds.
    pub(super) limit: usize,
    /// Kinds with free capacity.
    pub(super) kinds: Vec<KindCapacity>,
}

/// One used slot. Dropping it frees it.
pub(super) struct Slot {
    slots: Arc<Slots>,
    kind: Name,
    queue: Name,
}

/// An attempt that is being settled.
pub(super) struct SettlingSlot(Arc<Slots>);

impl Slots {
    /// Creates slots for deliveries, limited by each queue's window.
    pub(super) fn for_deliveries(delivery_worker: &DeliveryWorker) -> Self {
        let kind = std::iter::once(&delivery_worker.kind);
        Self {
            windows: Some(Arc::clone(&delivery_worker.windows)),
            ..Self::new(delivery_worker.jobs, kind)
        }
    }

    pub(super) fn new<'a>(total: usize, kinds: impl Iterator<Item = &'a Arc<Kind>>) -> Self {
        let kinds = kinds
            .filter(|kind| kind.runs_here())
            .filter_map(|kind| {
                let capacity = kind.settings().concurrency.unwrap_or(total).min(total);
                let code_version = kind.settings().code_version.clone();
                Some(KindCapacity { kind: kind.checked_name().ok()?, capacity, code_version })
            })
            .collect();
        Self {
            total,
            kinds,
            windows: None,
            awaited: AtomicBool::new(true),
            counts: Mutex::default(),
        }
    }

    /// Returns whether due jobs may be waiting for a free slot.
    pub(super) fn are_awaited(&self) -> bool {
        self.awaited.load(Ordering::SeqCst)
    }

    /// Records whether due jobs may be waiting for a free slot.
    pub(super) fn set_awaited(&self, awaited: bool) {
        self.awaited.store(awaited, Ordering::SeqCst);
    }

    /// Reserves slots for a claim, if at least `at_least` are free.
    pub(super) fn reserve(
        self: &Arc<Self>,
        at_least: usize,
        at_most: usize,
    ) -> Option<SlotReservation> {
        let mut counts = self.counts.lock();
        let behind = counts.ending.saturating_sub(self.total);
        let free = self.total.saturating_sub(counts.total + behind);
        // A claim takes only a part of the slots, so that windows are evaluated again in between.
        let quarter = if self.windows.is_some() { self.total.div_ceil(4) } else { self.total };
        let limit = free.min(at_most).min(quarter);
        let mut kinds = self.kinds.clone();
        for kind in &mut kinds {
            let running = counts.by_kind.get(&kind.kind).copied().unwrap_or(0);
            kind.capacity = kind.capacity.saturating_sub(running).min(limit);
        }
        kinds.retain(|kind| kind.capacity > 0);
        if limit < at_least || kinds.is_empty() {
            return None;
        }
        counts.total += limit;
        counts.reserved += limit;
        for kind in &kinds {
            *counts.by_kind.entry(kind.kind.clone()).or_default() += kind.capacity;
        }
        drop(counts);
        Some(SlotReservation { slots: Arc::clone(self), limit, kinds })
    }

    /// Returns the number of running handlers.
    pub(super) fn running(&self) -> usize {
        let counts = self.counts.lock();
        counts.total - counts.reserved
    }

    pub(super) fn take(self: &Arc<Self>, kind: &Name, queue: &Name) -> Slot {
        let (kind, queue) = (kind.clone(), queue.clone());
        let mut counts = self.counts.lock();
        counts.total += 1;
        *counts.by_kind.entry(kind.clone()).or_default() += 1;
        if self.windows.is_some() {
            *counts.by_queue.entry(queue.clone()).or_default() += 1;
        }
        drop(counts);
        Slot { slots: Arc::clone(self), kind, queue }
    }

    /// Returns whether two claims may run concurrently. Not with windows, because both would fill
    /// the same ones.
    pub(super) fn allow_concurrent_claims(&self) -> bool {
        self.windows.is_none()
    }

    /// Returns the free capacity of each queue, if queues have windows.
    pub(super) fn queue_capacity(&self) -> Option<QueueCapacity> {
        let windows = self.windows.as_ref()?;
        let running = self.counts.lock().by_queue.clone();
        let mut rooms = windows(&running);
        for (queue, running) in &running {
            let window = rooms.of(queue);
            rooms.known.insert(queue.clone(), window.saturating_sub(*running));
        }
        Some(rooms)
    }
}

impl SlotReservation {
    /// Returns whether a claim that took these jobs had capacity for more of every kind.
    pub(super) fn has_room_beside(&self, leases: &[Lease]) -> bool {
        let taken = |kind: &Name| leases.iter().filter(|lease| lease.job.kind == *kind).count();
        self.slots.windows.is_none()
            && leases.len() < self.limit
            && self.kinds.len() == self.slots.kinds.len()
            && self.kinds.iter().all(|kind| taken(&kind.kind) < kind.capacity)
    }
}

impl Drop for SlotReservation {
    fn drop(&mut self) {
        let mut counts = self.slots.counts.lock();
        counts.total -= self.limit;
        counts.reserved -= self.limit;
        for kind in &self.kinds {
            counts.give_back(&kind.kind, kind.capacity);
        }
    }
}

impl SlotCounts {
    fn give_back(&mut self, kind: &Name, count: usize) {
        if let Some(running) = self.by_kind.get_mut(kind) {
            *running -= count;
        }
    }
}

impl Slot {
    /// Frees the slot for another job while this attempt is settled.
    pub(super) fn ending(self) -> SettlingSlot {
        self.slots.counts.lock().ending += 1;
        SettlingSlot(Arc::clone(&self.slots))
    }
}

impl SettlingSlot {
    /// Returns whether this settlement frees capacity, because too many attempts are settling.
    pub(super) fn makes_room(&self) -> bool {
        self.0.counts.lock().ending > self.0.total
    }
}

impl Drop for SettlingSlot {
    fn drop(&mut self) {
        self.0.counts.lock().ending -= 1;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.slots.counts.lock();
        counts.total -= 1;
        counts.give_back(&self.kind, 1);
        if let Some(running) = counts.by_queue.get_mut(&self.queue) {
            *running -= 1;
            if *running == 0 {
                counts.by_queue.remove(&self.queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn slots(total: usize, kinds: &[(&str, usize)]) -> Arc<Slots> {
        let room = |(kind, room): &(&str, usize)| KindCapacity {
            kind: name(kind),
            capacity: *room,
            code_version: None,
        };
        let kinds = kinds.iter().map(room).collect();
        Arc::new(Slots { kinds, ..Slots::new(total, std::iter::empty()) })
    }

    fn take(slots: &Arc<Slots>, queue: &str) -> Slot {
        slots.take(&name("a"), &name(queue))
    }

    #[test]
    fn queue_has_room_for_what_its_window_leaves() {
        let known = HashMap::from([(name("fast"), 5), (name("hangs"), 1), (name("idle"), 3)]);
        let windows = QueueCapacity { each: 2, known };
        let slots = Slots::new(9, std::iter::empty());
        let windows: DeliveryWindows = Arc::new(move |_| windows.clone());
        let slots = Arc::new(Slots { windows: Some(windows), ..slots });
        let queues = ["fast", "hangs", "hangs", "new"];
        let running: Vec<Slot> = queues.map(|queue| take(&slots, queue)).into();
        let room = |queue: &str| slots.queue_capacity().unwrap().of(&name(queue));
        assert_eq!(["fast", "hangs", "idle", "new", "other"].map(room), [4, 0, 3, 1, 2]);
        drop(running);
        assert_eq!(["fast", "hangs", "idle", "new", "other"].map(room), [5, 1, 3, 2, 2]);
        assert!(slots.counts.lock().by_queue.is_empty());
    }

    #[test]
    fn two_claims_share_what_is_free() {
        let slots = slots(5, &[("a", 5)]);
        let first = slots.reserve(1, 3).unwrap();
        let second = slots.reserve(1, 3).unwrap();
        assert_eq!((first.limit, second.limit), (3, 2));
        assert!(slots.reserve(1, 3).is_none());
        assert_eq!(slots.running(), 0);
        drop(first);
        assert_eq!(slots.reserve(1, 9).unwrap().limit, 3);
    }

    #[test]
    fn small_room_is_not_worth_a_further_claim() {
        let slots = slots(5, &[("a", 5)]);
        let _first = slots.reserve(1, 3).unwrap();
        assert!(slots.reserve(3, 9).is_none());
        assert_eq!(slots.reserve(2, 9).unwrap().limit, 2);
    }

    #[test]
    fn kinds_without_room_are_left_out() {
        let slots = slots(4, &[("a", 1), ("b", 4)]);
        let _running = take(&slots, "default");
        let reserved = slots.reserve(1, 9).unwrap();
        assert_eq!(reserved.limit, 3);
        let kinds: Vec<_> =
            reserved.kinds.iter().map(|kind| (kind.kind.as_str(), kind.capacity)).collect();
        assert_eq!(kinds, [("b", 3)]);
    }

    #[test]
    fn ended_handlers_make_room_until_the_store_is_too_far_behind() {
        let slots = slots(2, &[("a", 2)]);
        let end = || take(&slots, "default").ending();
        let mut behind = vec![end(), end()];
        assert_eq!(slots.running(), 0);
        assert_eq!(slots.reserve(1, 9).unwrap().limit, 2);
        behind.push(end());
        assert_eq!(slots.reserve(1, 9).unwrap().limit, 1);
        behind.push(end());
        assert!(slots.reserve(1, 9).is_none());
        assert!(behind.iter().all(SettlingSlot::makes_room));
        behind.truncate(2);
        assert!(!behind.iter().any(SettlingSlot::makes_room));
        assert_eq!(slots.reserve(1, 9).unwrap().limit, 2);
    }
}
