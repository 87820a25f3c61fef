//! Maintenance of lane cursors: each lane's `due_at` stays close to its first job.
//!
//! Claims read a lane from its cursor on, so that they do not scan the dead rows of claimed jobs. Cursors
//! advance without locks; two later checks find jobs that were enqueued at the same moment. Lanes that stay empty are
//! deleted.

use std::time::Duration;

use crate::job::Timestamp;
use crate::metrics;
use crate::store::columns::from_columns;
use crate::store::postgres::batch::columns;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::{Inner, sql};

/// Interval between two advances.
const ADVANCE_INTERVAL: Duration = Duration::from_secs(2);
/// Time for which a skipped range is checked again: longer than any statement may run.
const RECHECK_FOR: Duration = Duration::from_mins(1);
/// Interval between two checks of all lanes from their very beginning.
const VERIFY_INTERVAL: Duration = Duration::from_mins(1);

/// Time for which an empty lane is kept: longer than the checks above, so that they find a job that was being enqueued.
const EMPTY_LANE_KEPT: Duration = Duration::from_hours(1);

/// State of a replica's cursor maintenance.
#[derive(Debug, Default)]
pub(crate) struct LaneCursors {
    advanced_at: Option<Timestamp>,
    verified_at: Option<Timestamp>,
    skipped: Vec<SkippedRange>,
}

/// A part of a lane that was empty when its cursor advanced over it.
#[derive(Debug)]
struct SkippedRange {
    range: LaneRange,
    advanced_at: Timestamp,
}

columns! {
    #[derive(Debug, Clone)]
    struct LaneRange => LaneRanges {
        tenant: String,
        queue: String,
        kind: String,
        priority: i32,
        from_at: i64,
        to_at: i64,
    }
}

from_columns! {
    LaneRange { tenant, queue, kind, priority, from_at, to_at }
}

fn is_due(last: Option<Timestamp>, interval: Duration, now: Timestamp) -> bool {
    last.is_none_or(|last| last.after(interval) <= now)
}

impl Inner {
    /// Advances, rewinds and verifies cursors, as far as that is due. All replicas do this without
    /// waiting for each other.
    pub(crate) async fn maintain_lane_cursors(&self) -> Result<(), PgError> {
        let now = self.clock.now();
        // A concurrent call of this process does the same work.
        let Ok(mut cursors) = self.lane_cursors.try_lock() else { return Ok(()) };
        if !is_due(cursors.advanced_at, ADVANCE_INTERVAL, now) {
            return Ok(());
        }
        cursors.advanced_at = Some(now);
        let mut connection = self.database.connection().await?;
        let mut rewound = 0;
        cursors.skipped.retain(|skipped| now < skipped.advanced_at.after(RECHECK_FOR));
        if !cursors.skipped.is_empty() {
            let mut ranges = LaneRanges::default();
            for skipped in &cursors.skipped {
                ranges.push(skipped.range.clone());
            }
            rewound += connection.query(sql::REWIND_LANES, &ranges.params()).await?.len();
        }
        if is_due(cursors.verified_at, VERIFY_INTERVAL, now) {
            cursors.verified_at = Some(now);
            rewound += connection.query(sql::VERIFY_LANES, &[]).await?.len();
            let empty_since = now.before(EMPTY_LANE_KEPT);
            let active: Option<i64> = connection.first(sql::FORGET_LANES, &[&empty_since]).await?;
            metrics::active_lanes(active.unwrap_or_default());
        }
        for range in connection.all(sql::ADVANCE_LANES, &[&now]).await? {
            cursors.skipped.push(SkippedRange { range, advanced_at: now });
        }
        if rewound > 0 {
            tracing::debug!(rewound, "lane cursors had skipped jobs that were being enqueued");
            self.notify.jobs_ready();
        }
        Ok(())
    }
}
