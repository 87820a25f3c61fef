//! Claiming where limits hold something back.
//!
//! Only claims that bring limits come here. They look at meters before they look for jobs, so that what
//! is exhausted is not even read; lock the meters of what they are about to take; and look again, without
//! what has let its last job pass, while there may be others behind it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{MutexGuard, PoisonError};

use tokio_postgres::Row;

use super::claim::{Candidate, Chosen, candidate, choose, set_aside};
use super::columns::{Columns, int, unreadable};
use super::database::{Connection, Transaction};
use super::error::Trouble;
use super::look::{Closed, LANES_MAX, Look};
use super::pick::Picker;
use super::{Inner, sql};
use crate::job::{Job, JobId, TenantId, Timestamp, TokenBucket};
use crate::store::Claim;
use crate::store::limits::{LimitCheck, LimitCounter, LimitKey, Scope};

/// The most looks of one claim; what they found exhausted is remembered for the next claim.
const LOOKS_MAX: usize = 8;
/// The most tenants that are remembered as held back.
const HELD_BACK_MAX: usize = 10_000;

/// What a look found.
struct Found {
    candidates: Vec<Candidate>,
    /// Jobs of each lane.
    lanes: HashMap<(TenantId, String, String, i32), usize>,
}

impl Found {
    async fn read(transaction: &Transaction, rows: &[Row]) -> Result<Self, Trouble> {
        let mut found = Self { candidates: Vec::with_capacity(rows.len()), lanes: HashMap::new() };
        for row in rows {
            match candidate(row) {
                Ok(read) => {
                    *found.lanes.entry(lane_key(&read.row.entry.job)).or_default() += 1;
                    found.candidates.push(read);
                }
                Err(trouble) => set_aside(transaction, row, &trouble).await?,
            }
        }
        Ok(found)
    }

    /// Whether there may be lanes, or jobs in them, that this look did not get to. Lanes whose first
    /// jobs others have locked are not in it, and have used up the look's limit all the same.
    fn may_hide_others(&self, each: usize) -> bool {
        self.lanes.len() * 2 >= LANES_MAX || self.lanes.values().any(|jobs| *jobs >= each)
    }
}

fn lane_key(job: &Job) -> (TenantId, String, String, i32) {
    (job.tenant.clone(), job.queue.to_string(), job.kind.to_string(), job.priority)
}

impl Inner {
    /// Chooses jobs as far as limits allow. Their places and their meters are locked in the transaction
    /// that is returned.
    pub(super) async fn choose_within_limits(
        &self,
        want: &Claim,
        now: Timestamp,
        gate: &mut LimitCheck<'_>,
    ) -> Result<(Transaction, Chosen), Trouble> {
        let mut connection = self.database.connection().await?;
        self.glance(&mut connection, want, gate).await?;
        let mut closed = Closed::by(gate);
        let rotation = self.rotation(want);
        let mut each = rotation.heads_of_each_lane(want.limit);
        let mut look = Look::new(want, rotation, now, each);
        look.without(&closed);
        let (transaction, mut rows) =
            connection.begin((sql::CLAIM_HEADS, &look.params()), None).await?;
        let mut picker = Picker::new(want);
        let mut chosen = Chosen::default();
        let mut taken: HashSet<(TenantId, JobId)> = HashSet::new();
        for looks in 1..=LOOKS_MAX {
            let mut found = Found::read(&transaction, &rows).await?;
            found.candidates.retain(|found| {
                let job = &found.row.entry.job;
                !taken.contains(&(job.tenant.clone(), job.id))
            });
            if looks == 1 {
                rotation.set_lanes_seen(found.lanes.len());
            }
            let may_hide_others = found.may_hide_others(each);
            lock_meters(&transaction, &found.candidates, gate, looks == 1).await?;
            let these = choose(found.candidates, &mut picker, gate);
            let key = |one: &Candidate| (one.row.entry.job.tenant.clone(), one.row.entry.job.id);
            taken.extend(these.taken.iter().map(key));
            chosen.taken.extend(these.taken);
            chosen.left = these.left;
            let closed_now = Closed::by(gate);
            let looks_the_same = closed_now == closed && each >= want.limit;
            if chosen.taken.len() >= want.limit || !may_hide_others || looks_the_same {
                break;
            }
            (closed, each) = (closed_now, want.limit);
            look.without(&closed);
            look.set_each(each);
            rows = transaction.query(sql::CLAIM_HEADS, &look.params()).await?;
        }
        self.remember_held_back(gate);
        Ok((transaction, chosen))
    }

    /// Looks at the meters of what may be exhausted, without locking them.
    async fn glance(
        &self,
        connection: &mut Connection,
        want: &Claim,
        gate: &mut LimitCheck<'_>,
    ) -> Result<(), Trouble> {
        let kinds = want.kinds.iter().map(|room| &room.kind);
        let kinds = kinds.filter(|kind| want.limits.kinds.iter().any(|(name, _)| name == *kind));
        let queues = want.limits.queues.iter().map(|(queue, _)| queue);
        let mut scopes: Vec<Scope> = kinds.cloned().map(Scope::Kind).collect();
        scopes.extend(queues.cloned().map(Scope::Queue));
        if want.limits.tenant_limit() {
            scopes.extend(self.lock_held_back().iter().cloned().map(Scope::Tenant));
        }
        if scopes.is_empty() {
            return Ok(());
        }
        let (of, names) = columns(&scopes);
        for row in connection.query(sql::METERS, &[&of, &names]).await? {
            let (scope, meter) = read(&row)?;
            gate.glance(scope, meter);
        }
        Ok(())
    }

    /// Writes what was counted.
    pub(super) async fn save_meters(
        &self,
        transaction: &Transaction,
        gate: &LimitCheck<'_>,
    ) -> Result<(), Trouble> {
        let changed = gate.changed();
        if changed.is_empty() {
            return Ok(());
        }
        let (of, names): (Vec<&str>, Vec<&str>) =
            changed.iter().map(|(scope, _)| scope.as_strs()).unzip();
        let running: Vec<i64> = changed.iter().map(|(_, meter)| int(meter.running)).collect();
        let buckets = || changed.iter().map(|(_, meter)| meter.bucket);
        let parts: Vec<i64> = buckets().map(|one| one.map_or(0, |one| int(one.parts))).collect();
        let taken_ats: Vec<Option<i64>> =
            buckets().map(|one| one.map(|one| one.as_of.as_millis())).collect();
        transaction.query(sql::SAVE_METERS, &[&of, &names, &running, &parts, &taken_ats]).await?;
        Ok(())
    }

    fn remember_held_back(&self, gate: &LimitCheck<'_>) {
        let tenants = gate.closed().filter_map(|scope| match scope {
            Scope::Tenant(tenant) => Some(tenant.clone()),
            Scope::Kind(_) | Scope::Queue(_) => None,
        });
        *self.lock_held_back() = tenants.take(HELD_BACK_MAX).collect();
    }

    fn lock_held_back(&self) -> MutexGuard<'_, HashSet<TenantId>> {
        self.held_back.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks the meters of these jobs that the gate does not know yet. Whoever has locked some already does
/// not wait for more: what others have is closed for this claim.
async fn lock_meters(
    transaction: &Transaction,
    candidates: &[Candidate],
    gate: &mut LimitCheck<'_>,
    may_wait: bool,
) -> Result<(), Trouble> {
    let mut scopes: BTreeSet<Scope> = BTreeSet::new();
    for found in candidates {
        let limited = gate.limited(LimitKey::of(&found.row.entry.job));
        scopes.extend(limited.filter(|scope| !gate.knows(scope)));
    }
    let mut unlocked: Vec<Scope> = scopes.into_iter().collect();
    for made in [false, true] {
        if unlocked.is_empty() {
            return Ok(());
        }
        let (of, names) = columns(&unlocked);
        if made {
            transaction.query(sql::MAKE_METERS, &[&of, &names]).await?;
        }
        let lock = if may_wait { sql::LOCK_METERS } else { sql::TRY_LOCK_METERS };
        for row in transaction.query(lock, &[&of, &names]).await? {
            let (scope, meter) = read(&row)?;
            gate.learn(scope, meter);
        }
        unlocked.retain(|scope| !gate.knows(scope));
    }
    for scope in unlocked {
        gate.close(scope);
    }
    Ok(())
}

fn columns(scopes: &[Scope]) -> (Vec<&str>, Vec<&str>) {
    scopes.iter().map(Scope::as_strs).unzip()
}

fn read(row: &Row) -> Result<(Scope, LimitCounter), Trouble> {
    let mut columns = Columns::of(row);
    let (of, name): (&str, &str) = (columns.get()?, columns.get()?);
    let scope = Scope::parse(of, name).ok_or_else(|| unreadable(format!("{of} {name:?}")))?;
    let (running, parts) = (columns.count()?, columns.count()?);
    let bucket = columns.opt_at()?.map(|as_of| TokenBucket { parts, as_of });
    Ok((scope, LimitCounter { running, bucket }))
}
