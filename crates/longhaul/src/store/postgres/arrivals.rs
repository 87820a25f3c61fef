//! Jobs that were submitted by SQL: how they get in line.
//!
//! A caller's transaction leaves them in `arrivals`, and whoever looks after its commit moves them. No
//! claim that finds enough to do pays for it: idle ones look, sweeps do, and hints hurry them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::columns::{Columns, limit};
use super::error::{Trouble, to_store_error};
use super::{Inner, sql};
use crate::store::{Claim, ClaimResult, StoreError};

/// The most that one statement moves.
const MOVED_MAX: usize = 1_000;
/// How long claims that find something, but not enough, leave arrivals to others.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two moves that hints ask for.
const PAUSE: Duration = Duration::from_millis(5);

impl Inner {
    /// Moves all that have arrived into line; how many those were.
    pub(super) async fn move_arrivals(&self) -> Result<u64, Trouble> {
        self.arrivals_seen_at.store(self.clock.now().as_millis(), Ordering::Relaxed);
        let mut connection = self.database.connection().await?;
        let mut all = 0;
        loop {
            let rows = connection.query(sql::MOVE_ARRIVALS, &[&limit(MOVED_MAX)]).await?;
            let moved = rows.first().map_or(Ok(0), |row| Columns::of(row).count())?;
            all += moved;
            if moved < MOVED_MAX as u64 {
                return Ok(all);
            }
        }
    }

    /// The same, where nobody waits for it: what stays behind is found by the next look.
    pub(super) async fn try_to_move_arrivals(&self) -> u64 {
        match self.move_arrivals().await {
            Ok(0) => 0,
            Ok(moved) => {
                self.notify.line();
                moved
            }
            Err(trouble) => {
                let error = to_store_error(trouble);
                tracing::warn!(%error, "cannot move jobs that were submitted by SQL into line");
                0
            }
        }
    }

    /// Claims, and looks for arrivals where there is room for more.
    pub(super) async fn claim_or_look(&self, want: &Claim) -> Result<ClaimResult, StoreError> {
        let claimed = self.claim(want).await?;
        if claimed.leases.is_empty() {
            // The first look may have come before what then arrived.
            return if self.try_to_move_arrivals().await > 0 {
                self.claim(want).await
            } else {
                Ok(claimed)
            };
        }
        let seen_at = self.arrivals_seen_at.load(Ordering::Relaxed);
        let since_ms = self.clock.now().as_millis().saturating_sub(seen_at);
        let is_due = u128::try_from(since_ms).is_ok_and(|since| since >= LOOK_EVERY.as_millis());
        if claimed.leases.len() < want.limit && is_due && self.try_to_move_arrivals().await > 0 {
            self.notify.hear_line();
        }
        Ok(claimed)
    }
}

/// Moves what hints tell of, until it is dropped.
pub(super) async fn move_on(inner: Arc<Inner>) {
    loop {
        inner.notify.arrival().await;
        if inner.try_to_move_arrivals().await > 0 {
            inner.notify.hear_line();
        }
        tokio::time::sleep(PAUSE).await;
    }
}
