//! Hand-off: a job that is submitted to a replica with a free slot gets its lease in the submission's own
//! transaction, which saves a commit.

use super::lost::may_have_committed;
use super::{OwnLease, lease};
use crate::store::postgres::connection::columns::{read_first, without_nul};
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::lease_cache::{CachedLease, StepCount};
use crate::store::postgres::row::JobRow;
use crate::store::postgres::submit::{ExistingJobs, submit_batch};
use crate::store::postgres::{Inner, sql};
use crate::store::stored_job::StoredJob;
use crate::store::{Claim, Lease, NewJob, StoreError, SubmitResult};

impl Inner {
    /// Submits a job and leases it, if nothing comes first.
    pub(crate) async fn submit_and_claim(
        &self,
        new: NewJob,
        want: &Claim,
    ) -> Result<(SubmitResult, Option<Lease>), StoreError> {
        let claim_id: i64 = rand::random();
        let handed_off = if want.may_start(&new) {
            let mut may_have_claimed = false;
            let handed_off = retrying!(is_retry => async {
                let handed_off = self.try_hand_off(&new, want, claim_id, is_retry).await;
                may_have_claimed |= may_have_committed(&handed_off);
                handed_off
            });
            if handed_off.is_err() && may_have_claimed {
                self.lost_claims.add(&want.replica, claim_id);
            }
            handed_off?
        } else {
            None
        };
        if let Some(handed_off) = handed_off {
            return Ok(handed_off);
        }
        let submitted = self.submit_batch(vec![new]).await.pop();
        Ok((submitted.unwrap_or(Err(StoreError::NotFound))?, None))
    }

    /// Submits the job once. Returns `None` if its events have to be delivered: then it is submitted as usual.
    async fn try_hand_off(
        &self,
        new: &NewJob,
        want: &Claim,
        claim_id: i64,
        is_retry: bool,
    ) -> Result<Option<(SubmitResult, Option<Lease>)>, PgError> {
        let now = self.clock.now();
        let mut outbox = self.outbox().await?;
        let accepted = StoredJob::accepted(new, now);
        outbox.add(&accepted, None);
        let mut entry = accepted.clone();
        entry.written();
        let mut row = JobRow::submitted(entry);
        let expires_at = row.entry.claim(want, now)?;
        outbox.add(&row.entry, None);
        if !outbox.is_empty() {
            return Ok(None);
        }
        let row = row.claimed(now);
        let claimed = OwnLease::new(&row, None)?;

        let (jobs, entries) = (std::slice::from_ref(new), std::slice::from_ref(&accepted));
        let batch = submit_batch(jobs, entries)?;
        let kinds: Vec<&str> = want.kinds.iter().map(|capacity| capacity.kind.as_str()).collect();
        let replica = without_nul(&want.replica);
        let mut params = batch.params();
        params.extend([&kinds as &dyn Param, &now, &replica, &expires_at, &claim_id]);
        params.extend([&claimed.epoch as &dyn Param, &claimed.version, &claimed.attempt]);
        params.extend([
            &claimed.started_at as &dyn Param,
            &claimed.code_version,
            &claimed.progress,
        ]);
        let mut connection = self.database.connection().await?;
        let rows = connection.query(sql::SUBMIT_AND_CLAIM, &params).await?;
        match read_first(&rows)?.unwrap_or((false, false)) {
            (false, _) => {
                let existing = ExistingJobs::read(&mut connection, jobs).await?;
                drop(connection);
                let submitted = existing.result(new, is_retry)?;
                // The lease of an earlier attempt whose response was lost.
                let leases = self.claimed_before(want, claim_id).await?.leases;
                return Ok(Some((submitted, leases.into_iter().next())));
            }
            (true, false) => {
                self.notify.jobs_ready();
                let record = JobRow::new_record(accepted);
                return Ok(Some((SubmitResult { record, created: true }, None)));
            }
            (true, true) => {}
        }
        self.lease_cache.insert(CachedLease {
            row: row.clone(),
            history: None,
            events: None,
            counted: false,
            steps: StepCount::known(Some(0)),
            shared: None,
        });
        self.notify.jobs_changed();
        let record = JobRow::new_record(accepted);
        let lease = lease(row, new.input.clone(), expires_at);
        Ok(Some((SubmitResult { record, created: true }, Some(lease))))
    }
}
