//! The ends of attempts: told by their workers, or by their silence.

use rusqlite::params;

use super::aside::or_set_aside;
use super::columns::limit;
use super::error::Trouble;
use super::row::Row;
use super::task::Tx;
use super::work::tell;
use super::{find, sql};
use crate::job::{Job, Next, Outcome, Standing, Status, Transition};
use crate::store::{Settled, Settlement, StoreError};

/// Ends an attempt, or finds that this very settlement ended it before.
pub(super) fn settle(tx: &Tx<'_>, settlement: &Settlement) -> Result<Settled, Trouble> {
    let Some(mut row) = find::held(tx, &settlement.lease)? else {
        return settled_before(tx, settlement);
    };
    tell(tx, &mut row, &settlement.phases, settlement.progress.as_ref());
    let next = settlement.outcome.clone().next(standing(&row.job), tx.now);
    end(tx, &mut row, next)?;
    Ok(settled(&row.job))
}

/// The answer to a settlement may be lost: the same again is fine, if the job was neither swept nor
/// claimed since, both of which raise its epoch.
fn settled_before(tx: &Tx<'_>, settlement: &Settlement) -> Result<Settled, Trouble> {
    let lease = &settlement.lease;
    let row = match find::row(tx, &lease.tenant, lease.job) {
        Err(Trouble::Refused(_)) => return Err(StoreError::LeaseLost.into()),
        other => other?,
    };
    if row.epoch == lease.epoch && leads_to(&settlement.outcome, row.job.status) {
        return Ok(settled(&row.job));
    }
    Err(StoreError::LeaseLost.into())
}

/// Whether a job that stands at `status` may have got there by this outcome.
fn leads_to(outcome: &Outcome, status: Status) -> bool {
    use Status::{Cancelled, Completed, Failed, Pending};
    match outcome {
        Outcome::Completed(_) => status == Completed,
        Outcome::Failed { .. } => [Failed, Pending, Cancelled].contains(&status),
        Outcome::Cancelled => status == Cancelled,
        Outcome::Released | Outcome::Sleep { .. } => [Pending, Cancelled].contains(&status),
    }
}

/// Ends the attempts of jobs whose leases ran out.
pub(super) fn sweep(tx: &Tx<'_>, count: usize) -> Result<Vec<Job>, Trouble> {
    let lost: Vec<i64> =
        tx.all(sql::LOST_LEASES, [tx.now.as_millis(), limit(count)], |row| row.get(0))?;
    let mut ended = Vec::with_capacity(lost.len());
    for seq in lost {
        let read = Row::load(tx, seq).map_err(Trouble::from);
        let Some(mut row) = or_set_aside(tx, seq, read)? else { continue };
        let replica = row.replica.clone().unwrap_or_default();
        let next = Next::after_lost_lease(standing(&row.job), &replica, tx.now);
        // Fences its worker off now, not at the next claim: what it says later was not done.
        row.epoch += 1;
        end(tx, &mut row, next)?;
        ended.push(row.job);
    }
    Ok(ended)
}

/// Writes what becomes of a job at the end of an attempt.
fn end(tx: &Tx<'_>, row: &mut Row, next: Next) -> Result<(), Trouble> {
    let command = next.command();
    let Transition::Move(status) = row.job.status.on(command) else {
        return Err(StoreError::WrongStatus { status: row.job.status, command }.into());
    };
    row.job.status = status;
    row.job.phase = None;
    let error = match next {
        Next::Complete(result) => {
            row.job.error = None;
            tx.run(sql::INSERT_RESULT, params![row.seq, result.as_str()])?;
            None
        }
        Next::Stop => None,
        Next::Fail(error) => Some(error),
        Next::PutBack { run_at, error, charge } => {
            row.job.run_at = run_at;
            row.charge = charge;
            error
        }
    };
    if let Some(error) = &error {
        row.job.error = Some(error.clone());
    }
    row.finish(tx.now);
    row.record(tx.now, error);
    // The event still names who held the lease; from now on nobody does.
    row.replica = None;
    row.lease_until = None;
    Ok(row.save(tx)?)
}

fn standing(job: &Job) -> Standing {
    Standing {
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        cancel_requested: job.cancel_requested_at.is_some(),
    }
}

fn settled(job: &Job) -> Settled {
    Settled { status: job.status, version: job.version, run_at: job.run_at }
}
