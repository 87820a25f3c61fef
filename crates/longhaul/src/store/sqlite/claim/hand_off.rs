//! Hand-off: a job that is submitted to a replica with a free slot gets its lease in the submission's own
//! transaction, which saves a commit.

use rusqlite::params;

use super::{lease, promote_due};
use crate::store::limits::LimitCheck;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::queries::find;
use crate::store::sqlite::{sql, submit};
use crate::store::{Claim, Lease, NewJob, SubmitResult};

/// Submits a job and leases it, if nothing comes first.
pub(crate) fn submit_and_claim(
    tx: &Tx<'_>,
    new: &NewJob,
    want: &Claim,
) -> Result<(SubmitResult, Option<Lease>), SqliteError> {
    let may_start = want.may_start(new) && !is_preceded(tx, new, want)?;
    let submitted = submit::submit(tx, new)?;
    if !may_start || !submitted.created {
        return Ok((submitted, None));
    }
    let seq = find::seq(tx, &new.tenant, new.id)?;
    let lease = lease(tx, seq, want, &mut LimitCheck::new(&want.limits, tx.now))?;
    Ok((submitted, Some(lease)))
}

/// Returns whether the job's queue is paused, or a due job of its tenant would be claimed first.
fn is_preceded(tx: &Tx<'_>, new: &NewJob, want: &Claim) -> Result<bool, SqliteError> {
    let paused = params![new.tenant.as_str(), new.queue.as_str()];
    if tx.one::<i64>(sql::IS_PAUSED, paused)?.is_some() {
        return Ok(true);
    }
    promote_due(tx, want)?;
    for kind in &want.kinds {
        let ready = params![kind.kind.as_str(), new.tenant.as_str()];
        if tx.one::<i64>(sql::IS_READY, ready)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
