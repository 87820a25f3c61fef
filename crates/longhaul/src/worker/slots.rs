//! How many jobs may run at once, in all and by kind.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

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
}

/// Room that is left.
#[derive(Debug)]
pub(super) struct Free {
    pub(super) total: usize,
    /// Only kinds that have room.
    pub(super) kinds: Vec<KindRoom>,
}

/// One taken place; free again when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    kind: Name,
}

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

    pub(super) fn free(&self) -> Free {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kinds = self.kinds.clone();
        for kind in &mut kinds {
            let running = taken.by_kind.get(&kind.kind).copied().unwrap_or(0);
            kind.room = kind.room.saturating_sub(running);
        }
        kinds.retain(|kind| kind.room > 0);
        Free { total: self.total.saturating_sub(taken.total), kinds }
    }

    pub(super) fn take(self: &Arc<Self>, kind: &Name) -> Slot {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.total += 1;
        *taken.by_kind.entry(kind.clone()).or_default() += 1;
        Slot { slots: Arc::clone(self), kind: kind.clone() }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.total -= 1;
        if let Some(running) = taken.by_kind.get_mut(&self.kind) {
            *running -= 1;
        }
    }
}
