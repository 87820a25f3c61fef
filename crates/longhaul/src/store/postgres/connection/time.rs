//! Synchronization of the clock with the database, whose time all replicas follow.

use std::time::{Duration, Instant};

use crate::clock::ReferenceTime;
use crate::job::Timestamp;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::{Inner, sql};

/// Interval between two readings of the database's clock.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// Number of samples. The fastest one is the most precise.
const SAMPLES: usize = 3;

impl Inner {
    /// Starts the clock at the time of the live replicas, or at the database's if there are none.
    pub(crate) async fn start_clock(&self) -> Result<(), PgError> {
        if let Some(reference) = self.read_clock().await? {
            self.clock.start_at(&reference);
        }
        Ok(())
    }

    /// Slews the clock towards the database's, if that is due.
    pub(crate) async fn maintain_clock(&self) -> Result<(), PgError> {
        let is_due = {
            let mut read_at = self.clock_read_at.lock();
            let is_due = read_at.is_none_or(|read_at| read_at.elapsed() >= READ_INTERVAL);
            if is_due {
                *read_at = Some(Instant::now());
            }
            is_due
        };
        if is_due { self.follow_clock().await } else { Ok(()) }
    }

    /// Slews the clock towards the database's.
    pub(crate) async fn follow_clock(&self) -> Result<(), PgError> {
        if let Some(reference) = self.read_clock().await? {
            self.clock.follow(&reference);
        }
        Ok(())
    }

    /// Reads the database's time, as exactly as a round trip allows.
    async fn read_clock(&self) -> Result<Option<ReferenceTime>, PgError> {
        let mut connection = self.database.connection().await?;
        let mut best = None;
        for _ in 0..SAMPLES {
            let sent_at = Instant::now();
            let read: Option<(Timestamp, Option<i64>)> = connection.first(sql::NOW, &[]).await?;
            let took = sent_at.elapsed();
            let Some(read) = read else { continue };
            if best.is_none_or(|(least, _, _)| took < least) {
                best = Some((took, read, Instant::now()));
            }
        }
        Ok(best.map(|(took, (now, ahead_of_replicas_ms), at)| ReferenceTime {
            name: "the database's clock",
            now: now.after(at.elapsed() + took / 2),
            precision: took,
            ahead_of_replicas_ms,
            advice: "correct the database's clock, or stop all replicas and start them again to take its time over",
        }))
    }
}
