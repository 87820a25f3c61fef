//! Keeps the beginnings of lanes close to their first jobs. See `raise_lanes.sql`.

use std::time::Duration;

use super::columns::Columns;
use super::error::Trouble;
use super::{Inner, sql};
use crate::job::Timestamp;

/// How often lanes are raised.
const RAISE_EVERY: Duration = Duration::from_secs(2);
/// For how long there is a second look at what was raised over: longer than any statement takes.
const LOOK_AGAIN_FOR: Duration = Duration::from_mins(1);
/// How often all lanes are looked at from their very beginning.
const CHECK_EVERY: Duration = Duration::from_mins(1);

/// What a replica remembers of its care for lanes.
#[derive(Debug, Default)]
pub(super) struct Care {
    raised_at: Option<Timestamp>,
    checked_at: Option<Timestamp>,
    over: Vec<RaisedOver>,
}

/// A part of a lane that was found empty.
#[derive(Debug)]
struct RaisedOver {
    tenant: String,
    queue: String,
    kind: String,
    priority: i32,
    from_at: i64,
    to_at: i64,
    raised_at: Timestamp,
}

impl Care {
    fn is_due(last: Option<Timestamp>, every: Duration, now: Timestamp) -> bool {
        last.is_none_or(|last| last.after(every) <= now)
    }
}

fn each<T>(over: &[RaisedOver], of: impl Fn(&RaisedOver) -> T) -> Vec<T> {
    over.iter().map(of).collect()
}

impl Inner {
    /// Does what is due. Every replica does it; they do not wait for each other.
    pub(super) async fn care_for_lanes(&self) -> Result<(), Trouble> {
        let now = self.clock.now();
        // One at a time in this process; whoever comes second has nothing to do.
        let Ok(mut care) = self.care.try_lock() else { return Ok(()) };
        if !Care::is_due(care.raised_at, RAISE_EVERY, now) {
            return Ok(());
        }
        care.raised_at = Some(now);
        let mut connection = self.database.connection().await?;
        let mut found = 0;
        care.over.retain(|over| now < over.raised_at.after(LOOK_AGAIN_FOR));
        if !care.over.is_empty() {
            let over = &care.over;
            let lowered = connection
                .query(
                    sql::LOWER_LANES,
                    &[
                        &each(over, |over| over.tenant.clone()),
                        &each(over, |over| over.queue.clone()),
                        &each(over, |over| over.kind.clone()),
                        &each(over, |over| over.priority),
                        &each(over, |over| over.from_at),
                        &each(over, |over| over.to_at),
                    ],
                )
                .await?;
            found += lowered.len();
        }
        if Care::is_due(care.checked_at, CHECK_EVERY, now) {
            care.checked_at = Some(now);
            found += connection.query(sql::CHECK_LANES, &[]).await?.len();
            // Machines' clocks drift apart by seconds a day.
            self.follow_time().await?;
        }
        for row in connection.query(sql::RAISE_LANES, &[&now.as_millis()]).await? {
            let mut columns = Columns::of(&row);
            care.over.push(RaisedOver {
                tenant: columns.get()?,
                queue: columns.get()?,
                kind: columns.get()?,
                priority: columns.get()?,
                from_at: columns.get()?,
                to_at: columns.get()?,
                raised_at: now,
            });
        }
        if found > 0 {
            tracing::debug!(found, "lanes were raised over jobs that were just being put in line");
            self.notify.line();
        }
        Ok(())
    }
}
