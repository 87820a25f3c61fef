//! Accepting jobs: new ones and forks.

use rusqlite::params;

use super::error::Trouble;
use super::row::Row;
use super::task::Tx;
use super::{find, sql};
use crate::job::{Job, JobId, Status, TenantId};
use crate::store::{NewJob, StoreError, Submitted};

/// Accepts a job, or finds the one that this submission made before.
pub(super) fn submit(tx: &Tx<'_>, new: &NewJob) -> Result<Submitted, Trouble> {
    let mut row = Row::new(pending(tx, new), new.retention, new.fingerprint, tx.now);
    if row.insert(tx)? {
        tx.run(sql::INSERT_INPUT, params![row.seq, new.input.as_str()])?;
        return Ok(Submitted { record: row.into_new_record(), created: true });
    }
    let existing = match &new.idempotency_key {
        Some(key) => find::by_key(tx, &new.tenant, key)?,
        None => None,
    };
    // Not the key: then the id, of a submission whose answer was lost.
    let existing = match existing {
        Some(existing) => existing,
        None => find::row(tx, &new.tenant, new.id)?,
    };
    if existing.fingerprint != new.fingerprint {
        return Err(StoreError::KeyReused { existing: existing.job.id }.into());
    }
    Ok(Submitted { record: existing.into_record(tx)?, created: false })
}

fn pending(tx: &Tx<'_>, new: &NewJob) -> Job {
    Job {
        id: new.id,
        tenant: new.tenant.clone(),
        kind: new.kind.clone(),
        queue: new.queue.clone(),
        status: Status::Pending,
        phase: None,
        priority: new.priority,
        attempt: 0,
        max_attempts: new.max_attempts,
        progress: None,
        labels: new.labels.clone(),
        version: 0,
        idempotency_key: new.idempotency_key.clone(),
        created_at: tx.now,
        run_at: new.start.run_at(tx.now),
        started_at: None,
        completed_at: None,
        expires_at: None,
        error: None,
        cancel_requested_at: None,
        timeout: new.timeout,
        code_version: None,
        forked_from: None,
        parent_id: new.parent_id,
    }
}

/// Makes a job of its own from an old one and the first of its steps.
pub(super) fn fork(
    tx: &Tx<'_>,
    tenant: &TenantId,
    id: JobId,
    new_id: JobId,
    from_step: Option<&str>,
) -> Result<Job, Trouble> {
    let old = find::row(tx, tenant, id)?;
    let from = match from_step {
        Some(name) => Some(position(tx, old.seq, name)?),
        None => None,
    };
    let (retention, fingerprint, old_seq) = (old.retention, old.fingerprint, old.seq);
    let mut row = Row::new(afresh(tx, old, new_id), retention, fingerprint, tx.now);
    if row.insert(tx)? {
        tx.run(sql::FORK_INPUT, [old_seq, row.seq])?;
        tx.run(sql::FORK_STEPS, params![old_seq, row.seq, from])?;
        return Ok(row.job);
    }
    // The id is taken: by this very fork, if its answer was lost.
    let existing = find::row(tx, tenant, new_id)?.job;
    if existing.forked_from == Some(id) {
        return Ok(existing);
    }
    Err(StoreError::KeyReused { existing: new_id }.into())
}

/// The old job as if it had just been submitted, with the attempts that it had at first.
fn afresh(tx: &Tx<'_>, old: Row, id: JobId) -> Job {
    Job {
        id,
        status: Status::Pending,
        phase: None,
        attempt: 0,
        max_attempts: old.attempts_allowed(),
        progress: None,
        version: 0,
        idempotency_key: None,
        created_at: tx.now,
        run_at: tx.now,
        started_at: None,
        completed_at: None,
        expires_at: None,
        error: None,
        cancel_requested_at: None,
        code_version: None,
        forked_from: Some(old.job.id),
        parent_id: None,
        ..old.job
    }
}

fn position(tx: &Tx<'_>, seq: i64, name: &str) -> Result<u32, Trouble> {
    let found = tx.one(sql::FIND_STEP, params![seq, name], |row| row.get(0))?;
    found.ok_or_else(|| StoreError::UnknownStep { name: name.to_owned() }.into())
}
