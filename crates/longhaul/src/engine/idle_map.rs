//! A map without idle entries, for state of tenants that can be rebuilt.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::job::Timestamp;

/// Time without use after which an entry is idle, and interval between removals, which visit all entries.
const IDLE_AFTER: Duration = Duration::from_mins(1);

/// A map from which entries are removed that were not used for a minute.
#[derive(Debug)]
pub(super) struct IdleMap<K, V> {
    entries: HashMap<K, TimedEntry<V>>,
    pruned_at: Option<Timestamp>,
}

#[derive(Debug)]
struct TimedEntry<V> {
    value: V,
    used_at: Timestamp,
}

impl<K, V> Default for IdleMap<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), pruned_at: None }
    }
}

impl<K: Eq + Hash + Clone, V: Default> IdleMap<K, V> {
    /// Returns the entry of `key`, which is created if there is none. Also removes idle entries, except those that
    /// `must_stay`.
    pub(super) fn entry(
        &mut self,
        key: &K,
        now: Timestamp,
        must_stay: impl Fn(&V) -> bool,
    ) -> &mut V {
        let is_recent = |at: Timestamp| now < at.after(IDLE_AFTER);
        if !self.pruned_at.is_some_and(is_recent) {
            self.pruned_at = Some(now);
            self.entries.retain(|_, entry| is_recent(entry.used_at) || must_stay(&entry.value));
        }
        let new = || TimedEntry { value: V::default(), used_at: now };
        let entry = self.entries.entry(key.clone()).or_insert_with(new);
        entry.used_at = now;
        &mut entry.value
    }

    /// Returns the entry of `key`, without creating it or keeping it from becoming idle.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
