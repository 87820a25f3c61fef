//! The database's time, which all replicas go by.

use std::time::Instant;

use super::columns::Columns;
use super::error::Trouble;
use super::{Inner, sql};
use crate::job::Timestamp;

/// How often the database is asked at the start: the quickest answer tells best.
const SAMPLES: usize = 3;

impl Inner {
    /// Sets the clock to the database's time, as exactly as a round trip allows.
    pub(super) async fn follow_time(&self) -> Result<(), Trouble> {
        let mut connection = self.database.connection().await?;
        let mut best = None;
        for _ in 0..SAMPLES {
            let asked = Instant::now();
            let rows = connection.query(sql::NOW, &[]).await?;
            let took = asked.elapsed();
            let Some(row) = rows.first() else { continue };
            let now: i64 = Columns::of(row).get()?;
            if best.is_none_or(|(least, _, _)| took < least) {
                best = Some((took, now, Instant::now()));
            }
        }
        if let Some((took, now, at)) = best {
            let since = at.elapsed() + took / 2;
            self.clock.set_to(Timestamp::from_millis(now).after(since), took);
        }
        Ok(())
    }
}
