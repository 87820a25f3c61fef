//! What the limits of a claim count.

use std::collections::HashMap;

use rusqlite::params;

use crate::job::{Name, TenantId, Timestamp, TokenBucket};
use crate::store::Claim;
use crate::store::limits::{LimitCheck, LimitCounter, LimitKey, Scope};
use crate::store::sqlite::connection::columns::{Columns, int};
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// The gate of one claim, and the store's meters behind it.
pub(crate) struct Meters<'a> {
    pub(crate) gate: LimitCheck<'a>,
    kinds: HashMap<&'a str, &'a Name>,
    /// Whether lines are to be walked queue by queue.
    pub(crate) by_queue: bool,
}

/// The names of a line, as far as limits are about it. None if there are none.
pub(crate) struct LimitNames {
    pub(crate) tenant: TenantId,
    pub(crate) kind: Name,
    pub(crate) queue: Option<Name>,
}

impl LimitNames {
    fn lane(&self) -> LimitKey<'_> {
        LimitKey { tenant: &self.tenant, kind: &self.kind, queue: self.queue.as_ref() }
    }
}

impl<'a> Meters<'a> {
    pub(crate) fn new(tx: &Tx<'_>, want: &'a Claim) -> rusqlite::Result<Self> {
        let gate = LimitCheck::new(&want.limits, tx.now);
        let by_queue = want.limits.limit_queues();
        if by_queue {
            tx.run(sql::CREATE_QUEUE_INDEX, [])?;
        }
        let names = want.kinds.iter().filter(|_| !gate.is_open());
        let kinds = names.map(|room| (room.kind.as_str(), &room.kind)).collect();
        Ok(Self { gate, kinds, by_queue })
    }

    /// The names of a line, if limits are about any. Names that cannot be are not held back: whoever
    /// reads their jobs sets them aside.
    pub(crate) fn names(
        &self,
        tenant: &str,
        kind: &str,
        queue: Option<&str>,
    ) -> Option<LimitNames> {
        let kind = (*self.kinds.get(kind)?).clone();
        let tenant = TenantId::stored(tenant)?;
        Some(LimitNames { tenant, kind, queue: queue.and_then(|queue| Name::new(queue).ok()) })
    }

    /// Whether one more job of this line may start.
    pub(crate) fn admit(&mut self, tx: &Tx<'_>, line: &LimitNames) -> rusqlite::Result<bool> {
        let unknown = |scope: &Scope| !self.gate.knows(scope);
        let scopes: Vec<Scope> = self.gate.limited(line.lane()).filter(unknown).collect();
        for scope in scopes {
            let (of, name) = scope.as_strs();
            let meter =
                tx.one(sql::LIMIT_COUNTERS, [of, name], |row| read(&mut Columns::of(row)))?;
            self.gate.learn(scope, meter.unwrap_or_default());
        }
        Ok(self.gate.admits(line.lane()))
    }

    /// Keeps a place for one job of this line.
    pub(crate) fn reserve(&mut self, line: &LimitNames) {
        self.gate.reserve(line.lane());
    }

    /// Writes what was counted.
    pub(crate) fn save(&self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        for (scope, LimitCounter { running, bucket }) in self.gate.changed() {
            let (of, name) = scope.as_strs();
            let parts = bucket.map_or(0, |bucket| int(bucket.parts));
            let taken_at = bucket.map(|bucket| bucket.as_of.as_millis());
            tx.run(sql::SAVE_LIMIT_COUNTERS, params![of, name, int(running), parts, taken_at])?;
        }
        Ok(())
    }
}

fn read(columns: &mut Columns<'_>) -> rusqlite::Result<LimitCounter> {
    let (running, parts) = (columns.count()?, columns.count()?);
    let as_of: Option<Timestamp> = columns.opt_at()?;
    Ok(LimitCounter { running, bucket: as_of.map(|as_of| TokenBucket { parts, as_of }) })
}
