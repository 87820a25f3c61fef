//! Selection of candidates for claims with limits on queues, kinds or tenants.
//!
//! Such a claim peeks at the counters before it queries jobs, so that jobs of exhausted scopes are not
//! even read; locks the counters of the jobs it is about to take; and queries again without the scopes
//! that it exhausted, while there may be other jobs behind them.

use std::collections::{BTreeSet, HashSet};
use std::sync::{MutexGuard, PoisonError};

use super::candidates::{Candidate, Candidates, Selection};
use super::query::{ClaimQuery, ExhaustedScopes};
use crate::job::{JobId, TenantId, Timestamp};
use crate::store::Claim;
use crate::store::columns::{FromRow, ReadColumns};
use crate::store::fairness::CandidateSelector;
use crate::store::limits::{LimitCheck, LimitKey, LimitScope};
use crate::store::postgres::batch::columns;
use crate::store::postgres::connection::columns::{int, read_all};
use crate::store::postgres::connection::database::{Connection, Transaction};
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::{Inner, sql};

/// Maximum number of queries per claim. Scopes found exhausted are remembered for the next claim.
const QUERIES_MAX: usize = 8;
/// Maximum number of tenants remembered as exhausted.
const LIMITED_TENANTS_MAX: usize = 10_000;

impl Inner {
    /// Selects jobs as far as limits allow. The returned transaction has locked the jobs and the counters
    /// that count them.
    pub(super) async fn select_within_limits(
        &self,
        want: &Claim,
        now: Timestamp,
        limits: &mut LimitCheck<'_>,
    ) -> Result<(Transaction, Selection), PgError> {
        let mut connection = self.database.connection().await?;
        self.peek_counters(&mut connection, want, limits).await?;
        let mut exhausted = ExhaustedScopes::of(limits);
        let rotation = self.rotation(want);
        let mut heads_per_lane = rotation.heads_per_lane(want.limit);
        let mut query = ClaimQuery::new(want, rotation, now, heads_per_lane);
        query.exclude(&exhausted);
        let (transaction, mut rows) =
            connection.begin((sql::CLAIM_HEADS, &query.params()), None).await?;
        let mut selector = CandidateSelector::new(want);
        let mut selection = Selection::default();
        let mut selected: HashSet<(TenantId, JobId)> = HashSet::new();
        let key = |one: &Candidate| (one.job().tenant.clone(), one.job().id);
        for number in 1..=QUERIES_MAX {
            let mut candidates = Candidates::read(&transaction, &rows).await?;
            candidates.jobs.retain(|candidate| !selected.contains(&key(candidate)));
            if number == 1 {
                rotation.set_lanes_seen(candidates.lane_count());
            }
            let may_have_more = candidates.may_have_more(heads_per_lane);
            lock_counters(&transaction, &candidates.jobs, limits, number == 1).await?;
            let chosen = Selection::choose(candidates.jobs, &mut selector, limits);
            selected.extend(chosen.selected.iter().map(key));
            selection.selected.extend(chosen.selected);
            selection.left = chosen.left;
            let exhausted_now = ExhaustedScopes::of(limits);
            let is_same_query = exhausted_now == exhausted && heads_per_lane >= want.limit;
            if selection.selected.len() >= want.limit || !may_have_more || is_same_query {
                break;
            }
            (exhausted, heads_per_lane) = (exhausted_now, want.limit);
            query.exclude(&exhausted);
            query.set_heads_per_lane(heads_per_lane);
            rows = transaction.query(sql::CLAIM_HEADS, &query.params()).await?;
        }
        self.remember_limited_tenants(limits);
        Ok((transaction, selection))
    }

    /// Reads the counters of scopes that may be exhausted, without locking them.
    async fn peek_counters(
        &self,
        connection: &mut Connection,
        want: &Claim,
        limits: &mut LimitCheck<'_>,
    ) -> Result<(), PgError> {
        let kinds = want.kinds.iter().map(|capacity| &capacity.kind);
        let kinds = kinds.filter(|kind| want.limits.kinds.iter().any(|(name, _)| name == *kind));
        let queues = want.limits.queues.iter().map(|(queue, _)| queue);
        let mut scopes: Vec<LimitScope> = kinds.cloned().map(LimitScope::Kind).collect();
        scopes.extend(queues.cloned().map(LimitScope::Queue));
        if want.limits.tenant_limit() {
            scopes.extend(self.lock_limited_tenants().iter().cloned().map(LimitScope::Tenant));
        }
        if scopes.is_empty() {
            return Ok(());
        }
        let (types, names) = scope_columns(&scopes);
        for (scope, counter) in connection.all(sql::LIMIT_COUNTERS, &[&types, &names]).await? {
            limits.glance(scope, counter);
        }
        Ok(())
    }

    /// Writes the counters that the claim changed.
    pub(super) async fn save_counters(
        &self,
        transaction: &Transaction,
        limits: &LimitCheck<'_>,
    ) -> Result<(), PgError> {
        let changed = limits.changed();
        if changed.is_empty() {
            return Ok(());
        }
        let mut batch = CounterBatch::default();
        for (scope, counter) in changed {
            let ((scope, name), bucket) = (scope.as_strs(), counter.bucket);
            batch.push(CounterRow {
                scope: scope.to_owned(),
                name: name.to_owned(),
                running: int(counter.running),
                parts: bucket.map_or(0, |bucket| int(bucket.parts)),
                taken_at: bucket.map(|bucket| bucket.as_of.as_millis()),
            });
        }
        transaction.query(sql::SAVE_LIMIT_COUNTERS, &batch.params()).await?;
        Ok(())
    }

    fn remember_limited_tenants(&self, limits: &LimitCheck<'_>) {
        let tenants = limits.closed().filter_map(|scope| match scope {
            LimitScope::Tenant(tenant) => Some(tenant.clone()),
            LimitScope::Kind(_) | LimitScope::Queue(_) => None,
        });
        *self.lock_limited_tenants() = tenants.take(LIMITED_TENANTS_MAX).collect();
    }

    fn lock_limited_tenants(&self) -> MutexGuard<'_, HashSet<TenantId>> {
        self.limited_tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

columns! {
    struct CounterRow => CounterBatch {
        scope: String,
        name: String,
        running: i64,
        parts: i64,
        taken_at: Option<i64>,
    }
}

/// Locks the counters of the candidates' scopes, as far as this claim has not locked them yet. A claim that
/// already holds locks does not wait for more, so that claims cannot deadlock: scopes locked by other
/// claims count as exhausted.
async fn lock_counters(
    transaction: &Transaction,
    candidates: &[Candidate],
    limits: &mut LimitCheck<'_>,
    may_wait: bool,
) -> Result<(), PgError> {
    let mut scopes: BTreeSet<LimitScope> = BTreeSet::new();
    for candidate in candidates {
        let limited = limits.limited(LimitKey::of(candidate.job()));
        scopes.extend(limited.filter(|scope| !limits.knows(scope)));
    }
    let mut unlocked: Vec<LimitScope> = scopes.into_iter().collect();
    for create in [false, true] {
        if unlocked.is_empty() {
            return Ok(());
        }
        let (types, names) = scope_columns(&unlocked);
        if create {
            transaction.query(sql::CREATE_LIMIT_COUNTERS, &[&types, &names]).await?;
        }
        let lock = if may_wait { sql::LOCK_LIMIT_COUNTERS } else { sql::TRY_LOCK_LIMIT_COUNTERS };
        for (scope, counter) in read_all(&transaction.query(lock, &[&types, &names]).await?)? {
            limits.learn(scope, counter);
        }
        unlocked.retain(|scope| !limits.knows(scope));
    }
    for scope in unlocked {
        limits.close(scope);
    }
    Ok(())
}

fn scope_columns(scopes: &[LimitScope]) -> (Vec<&str>, Vec<&str>) {
    scopes.iter().map(LimitScope::as_strs).unzip()
}

impl FromRow for LimitScope {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let (scope, name): (String, String) = columns.get()?;
        Self::parse(&scope, &name).ok_or_else(|| C::unreadable(format!("{scope} {name:?}")))
    }
}
