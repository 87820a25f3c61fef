//! Synchronization of the clock with the database, whose time all replicas use.

use std::time::Instant;

use crate::job::Timestamp;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::{Inner, sql};

/// Number of samples. The fastest one is the most precise.
const SAMPLES: usize = 3;

impl Inner {
    /// Sets the clock to the database's time, as exactly as a round trip allows.
    pub(crate) async fn sync_clock(&self) -> Result<(), PgError> {
        let mut connection = self.database.connection().await?;
        let mut best = None;
        for _ in 0..SAMPLES {
            let sent_at = Instant::now();
            let now: Option<Timestamp> = connection.first(sql::NOW, &[]).await?;
            let took = sent_at.elapsed();
            let Some(now) = now else { continue };
            if best.is_none_or(|(least, _, _)| took < least) {
                best = Some((took, now, Instant::now()));
            }
        }
        if let Some((took, now, at)) = best {
            let since = at.elapsed() + took / 2;
            self.clock.set_to(now.after(since), took);
        }
        Ok(())
    }
}
