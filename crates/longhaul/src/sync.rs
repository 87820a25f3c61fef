//! A mutex without poisoning.

use std::sync::{MutexGuard, PoisonError};

/// A mutex that stays usable after a panic, because every change under a lock of ours is complete
/// or harmless. Held for a few statements, never across an await.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
