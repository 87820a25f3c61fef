//! Jobs submitted by SQL, inside transactions of callers.
//!
//! Such a transaction inserts its jobs into `incoming`; a replica moves them to `ready` after its commit.
//! Claims that find enough jobs do not pay for this: idle claims, rescues and notifications trigger it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::connection::columns::limit;
use super::connection::error::{PgError, to_store_error};
use super::{Inner, sql};

/// Maximum number of jobs per statement.
const BATCH_SIZE: usize = 1_000;
/// Minimum interval between checks by claims that found jobs, but fewer than they wanted.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after each move that a notification triggered.
const PAUSE: Duration = Duration::from_millis(5);

impl Inner {
    /// Moves all committed submissions to the queue. Returns their number.
    pub(super) async fn enqueue_incoming(&self) -> Result<u64, PgError> {
        self.incoming_checked_at.store(self.clock.now().as_millis(), Ordering::Relaxed);
        let mut connection = self.database.connection().await?;
        let mut total = 0;
        loop {
            let moved = connection.first(sql::ENQUEUE_INCOMING, &[&limit(BATCH_SIZE)]).await?;
            let moved: u64 = moved.unwrap_or_default();
            total += moved;
            if moved < BATCH_SIZE as u64 {
                return Ok(total);
            }
        }
    }

    /// Moves submissions like [`Self::enqueue_incoming`], but only logs an error, because the next check
    /// finds the jobs.
    pub(super) async fn try_enqueue_incoming(&self) -> u64 {
        match self.enqueue_incoming().await {
            Ok(0) => 0,
            Ok(moved) => {
                self.notify.jobs_ready();
                moved
            }
            Err(error) => {
                let error = to_store_error(error);
                tracing::warn!(%error, "cannot enqueue jobs that were submitted by SQL");
                0
            }
        }
    }

    pub(super) fn is_incoming_check_due(&self) -> bool {
        let checked_at = self.incoming_checked_at.load(Ordering::Relaxed);
        let since_ms = self.clock.now().as_millis().saturating_sub(checked_at);
        u128::try_from(since_ms).is_ok_and(|since| since >= CHECK_INTERVAL.as_millis())
    }
}

/// Enqueues submissions whenever a notification announces some, until it is dropped.
pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        inner.notify.incoming().await;
        if inner.try_enqueue_incoming().await > 0 {
            inner.notify.wake_claims();
        }
        tokio::time::sleep(PAUSE).await;
    }
}
