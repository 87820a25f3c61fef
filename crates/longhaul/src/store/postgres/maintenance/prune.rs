//! Deletion of finished jobs past their retention.

use std::time::Duration;

use crate::store::postgres::connection::columns::{limit, millis};
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::{Inner, sql};

/// Time for which a deleted job's id is answered with "gone": 30 days.
const TOMBSTONE_RETENTION: Duration = Duration::from_hours(30 * 24);
/// Number of steps after which a statement deletes no further job, because a job may have thousands.
const DELETED_STEPS_MAX: i64 = 20_000;

impl Inner {
    /// Deletes up to `count` expired jobs, and old tombstones and blob records. Returns the number of
    /// deleted jobs.
    pub(crate) async fn prune(&self, count: usize) -> Result<usize, PgError> {
        let now = self.clock.now().as_millis();
        let mut connection = self.database.connection().await?;
        let mut deleted = 0;
        while deleted < count {
            let params: &[&dyn Param] = &[&now, &limit(count - deleted), &DELETED_STEPS_MAX];
            let pruned = connection.query(sql::DELETE_EXPIRED, params).await?.len();
            deleted += pruned;
            if pruned == 0 {
                break;
            }
        }
        let count = limit(count);
        let gone_before = now.saturating_sub(millis(TOMBSTONE_RETENTION));
        connection.query(sql::FORGET_TOMBSTONES, &[&gone_before, &count]).await?;
        connection.query(sql::FORGET_BLOBS, &[&gone_before, &count]).await?;
        Ok(deleted)
    }
}
