//! Waiting for conditions without a signal.

use std::time::Duration;

/// Maximum number of checks before a condition counts as failed: half a minute.
const LOOKS_MAX: usize = 600;

/// Repeats `look` until it returns a value.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS_MAX {
        if let Some(found) = look().await {
            return found;
        }
        // tidy: allow(sleep) another process changes the condition without a signal
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("waited for {what} in vain");
}
