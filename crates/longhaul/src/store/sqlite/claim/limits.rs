//! Limit counters during a claim.

use std::collections::HashMap;

use rusqlite::params;

use crate::job::{Name, TenantId};
use crate::store::Claim;
use crate::store::limits::{LimitCheck, LimitCounter, LimitKey, LimitScope};
use crate::store::sqlite::connection::columns::int;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// The limits of one claim and the stored counters.
pub(crate) struct ClaimLimits<'a> {
    pub(crate) check: LimitCheck<'a>,
    kinds: HashMap<&'a str, &'a Name>,
    /// True if a queue has a limit, so that candidates are read queue by queue.
    pub(crate) by_queue: bool,
}

/// The names that select the limits of a lane.
pub(crate) struct LimitNames {
    pub(crate) tenant: TenantId,
    pub(crate) kind: Name,
    pub(crate) queue: Option<Name>,
}

impl LimitNames {
    fn key(&self) -> LimitKey<'_> {
        LimitKey { tenant: &self.tenant, kind: &self.kind, queue: self.queue.as_ref() }
    }
}

impl<'a> ClaimLimits<'a> {
    pub(crate) fn new(tx: &Tx<'_>, want: &'a Claim) -> rusqlite::Result<Self> {
        let check = LimitCheck::new(&want.limits, tx.now);
        let by_queue = want.limits.limit_queues();
        if by_queue {
            tx.run(sql::CREATE_QUEUE_INDEX, [])?;
        }
        let names = want.kinds.iter().filter(|_| !check.is_open());
        let kinds = names.map(|kind| (kind.kind.as_str(), &kind.kind)).collect();
        Ok(Self { check, kinds, by_queue })
    }

    /// Returns the names of a lane; `None` if there are no limits. Invalid names have no limits: reading
    /// their jobs quarantines them.
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

    /// Returns true if one more job may start. Loads missing counters.
    pub(crate) fn admit(&mut self, tx: &Tx<'_>, names: &LimitNames) -> rusqlite::Result<bool> {
        let unknown = |scope: &LimitScope| !self.check.knows(scope);
        let scopes: Vec<LimitScope> = self.check.limited(names.key()).filter(unknown).collect();
        for scope in scopes {
            let (of, name) = scope.as_strs();
            let counter = tx.one(sql::LIMIT_COUNTERS, [of, name])?;
            self.check.learn(scope, counter.unwrap_or_default());
        }
        Ok(self.check.admits(names.key()))
    }

    /// Reserves one start.
    pub(crate) fn reserve(&mut self, names: &LimitNames) {
        self.check.reserve(names.key());
    }

    /// Writes the changed counters.
    pub(crate) fn save(&self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        for (scope, LimitCounter { running, bucket }) in self.check.changed() {
            let (of, name) = scope.as_strs();
            let parts = bucket.map_or(0, |bucket| int(bucket.parts));
            let taken_at = bucket.map(|bucket| bucket.as_of.as_millis());
            tx.run(sql::SAVE_LIMIT_COUNTERS, params![of, name, int(running), parts, taken_at])?;
        }
        Ok(())
    }
}
