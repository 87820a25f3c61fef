//! Claiming: who is next, over all tenants.
//!
//! One job per tenant and round, rotating: a tenant's 100,000 jobs do not delay another's one. Inside
//! a tenant the least rank goes first, over all of its kinds. The cost is a few seeks per tenant visited
//! and does not grow with what is pending, scheduled, paused or finished, nor with queues, nor with
//! tenants that only have jobs of other kinds.

mod candidates;
mod limits;
mod outbox;
pub(crate) mod quarantine;
mod tenants;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::job::Timestamp;
use crate::store::limits::{LimitCheck, LimitKey};
use crate::store::sqlite::claim::quarantine::or_quarantine;
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::queries::find;
use crate::store::sqlite::row::{PRIORITY_POINT_MS, Row};
use crate::store::sqlite::sql;
use crate::store::{Claim, ClaimResult, Lease};
use candidates::TenantQueue;
use limits::Meters;
use tenants::Tenants;

/// Jobs whose time has come that a claim puts in line; the next claim takes the rest.
const PROMOTED_MAX: usize = 1_000;

/// What is remembered from claim to claim. Nothing is lost with it.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// The tenant that was served last: a hint for fairness. A std mutex: only the writer's thread
    /// takes it.
    last_served: Mutex<String>,
    /// The same for the queues of outboxes.
    last_told: Mutex<outbox::Served>,
    /// Whether any claim was made since the file was opened.
    begun: AtomicBool,
}

/// Claims what there is room for.
pub(crate) fn claim(
    tx: &Tx<'_>,
    want: &Claim,
    rotation: &Rotation,
) -> Result<ClaimResult, SqliteError> {
    let promoted_max = limit(PROMOTED_MAX.max(want.limit));
    tx.run(sql::PROMOTE_DUE, [tx.now.as_millis(), promoted_max, PRIORITY_POINT_MS])?;
    let mut meters = Meters::new(tx, want)?;
    if !rotation.begun.swap(true, Ordering::Relaxed) && !meters.by_queue {
        tx.run(sql::DROP_QUEUE_INDEX, [])?;
    }
    let picked = if let Some(rooms) = &want.queue_capacity {
        let mut last = rotation.last_told.lock().unwrap_or_else(PoisonError::into_inner);
        outbox::pick(tx, want, rooms, &mut last)?
    } else {
        let mut last = rotation.last_served.lock().unwrap_or_else(PoisonError::into_inner);
        Picker::new(tx, want, &mut meters).pick(&mut last)?
    };
    let mut leases = Vec::with_capacity(picked.len());
    for seq in picked {
        let taken = take(tx, seq, want, &mut meters.gate);
        leases.extend(or_quarantine(tx, seq, taken)?);
    }
    meters.save(tx)?;
    let next_due_at: Option<i64> = tx.one(sql::NEXT_DUE, [], |row| row.get(0))?.flatten();
    let next_due_at = next_due_at.map(Timestamp::from_millis);
    let next_due_at = next_due_at.into_iter().chain(meters.gate.next_at()).min();
    Ok(ClaimResult { leases, next_due_at })
}

/// What is left to pick while a claim runs.
struct Picker<'a, 'm> {
    tx: &'a Tx<'a>,
    /// How many more in all.
    left: usize,
    /// How many more of each kind.
    room: HashMap<&'a str, usize>,
    /// What limits allow.
    meters: &'m mut Meters<'a>,
}

impl<'a, 'm> Picker<'a, 'm> {
    fn new(tx: &'a Tx<'a>, want: &'a Claim, meters: &'m mut Meters<'a>) -> Self {
        let room = want.kinds.iter().map(|kind| (kind.kind.as_str(), kind.capacity)).collect();
        Self { tx, left: want.limit, room, meters }
    }

    /// The jobs to take, in their order. Starts after the tenant that was served last.
    fn pick(mut self, last_served: &mut String) -> rusqlite::Result<Vec<i64>> {
        let mut picked = Vec::new();
        let mut served = Vec::new();
        // The first round finds the tenants on its way, and no more of them than it needs.
        let mut tenants = Tenants::after(self.tx, last_served, self.room.keys().copied())?;
        while self.has_room()
            && let Some((tenant, kinds)) = tenants.next(&self.room)?
        {
            let mut line = TenantQueue::new(self.tx, tenant, kinds, self.meters)?;
            if let Some(seq) = self.pick_from(&mut line)? {
                picked.push(seq);
                last_served.clone_from(&line.tenant);
                served.push(line);
            }
        }
        while self.has_room() && !served.is_empty() {
            let mut still_in_line = Vec::with_capacity(served.len());
            for mut line in served {
                if let Some(seq) = self.pick_from(&mut line)? {
                    picked.push(seq);
                    last_served.clone_from(&line.tenant);
                    still_in_line.push(line);
                }
            }
            served = still_in_line;
        }
        Ok(picked)
    }

    fn has_room(&self) -> bool {
        self.left > 0 && self.room.values().any(|room| *room > 0)
    }

    /// The tenant's next job of a kind that has room.
    fn pick_from(&mut self, line: &mut TenantQueue<'a>) -> rusqlite::Result<Option<i64>> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some((kind, seq)) = line.pop(self.tx, &self.room, self.meters)? else {
            return Ok(None);
        };
        if let Some(room) = self.room.get_mut(kind) {
            *room = room.saturating_sub(1);
        }
        self.left -= 1;
        Ok(Some(seq))
    }
}

/// Gives the job to the replica that asks. Reads all of it before it writes.
fn take(
    tx: &Tx<'_>,
    seq: i64,
    want: &Claim,
    gate: &mut LimitCheck<'_>,
) -> Result<Lease, SqliteError> {
    let mut row = Row::load(tx, seq)?;
    let input = find::input_of(tx, seq)?;
    let may_have_steps = row.stored.may_have_steps();
    let steps = if may_have_steps { find::steps_of(tx, seq)? } else { Vec::new() };
    let expires_at = row.stored.claim(want, tx.now)?;
    row.counted = gate.pass(LimitKey::of(&row.stored.job));
    row.save_transition(tx)?;
    Ok(Lease { epoch: row.stored.epoch, expires_at, input, steps, job: row.stored.job })
}
