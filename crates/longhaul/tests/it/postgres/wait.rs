//! Waiting for what nothing signals.

use std::time::Duration;

/// How often something is looked at before it is taken for never: half a minute.
const LOOKS_MAX: usize = 600;

/// Looks again and again until there is an answer.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS_MAX {
        if let Some(found) = look().await {
            return found;
        }
        // tidy: allow(sleep) another process changes what is looked at, and tells nobody
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("waited for {what} in vain");
}
