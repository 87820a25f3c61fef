//! Claims, and leases with a submission.

use std::collections::HashMap;

use longhaul::job::{Command, Job, Name, Status, Timestamp};
use longhaul::store::{Claim, ClaimResult, Lease, NewJob, StoreError, SubmitResult};

use super::state::{Row, State};

impl Row {
    fn lease(&mut self, want: &Claim, now: Timestamp) -> Result<Lease, StoreError> {
        self.turn(Command::Claim)?;
        self.epoch += 1;
        self.replica = Some(want.replica.clone());
        self.lease_ends_at = now.after(want.lease);
        self.meter.claimed_at = now;
        let job = &mut self.record.job;
        job.attempt += u32::from(self.charge);
        let kind = want.kinds.iter().find(|kind| kind.kind == job.kind);
        if job.started_at.is_none() {
            job.started_at = Some(now);
            job.code_version = kind.and_then(|kind| kind.code_version.clone());
        }
        self.event(now, None);
        Ok(Lease {
            job: self.record.job.clone(),
            epoch: self.epoch,
            expires_at: self.lease_ends_at,
            input: self.input.clone(),
            steps: self.steps.clone(),
        })
    }
}

impl State {
    pub(super) fn claim(
        &mut self,
        want: &Claim,
        now: Timestamp,
    ) -> Result<ClaimResult, StoreError> {
        let mut rooms: HashMap<Name, usize> =
            want.kinds.iter().map(|kind| (kind.kind.clone(), kind.capacity)).collect();
        let mut leases = Vec::new();
        while leases.len() < want.limit
            && let Some(id) = self.pick(&rooms, &want.limits, now)
        {
            self.count(id, &want.limits, now);
            self.turn += 1;
            let turn = self.turn;
            let row = self.rows.get_mut(&id).expect("it was picked");
            let lease = row.lease(want, now)?;
            *rooms.get_mut(&lease.job.kind).expect("there was room") -= 1;
            self.served.insert(lease.job.tenant.clone(), turn);
            leases.push(lease);
        }
        let limited_until = self.next_token_at(&rooms, &want.limits, now);
        Ok(ClaimResult { leases, limited_until })
    }

    pub(super) fn submit_and_claim(
        &mut self,
        new: NewJob,
        want: &Claim,
        now: Timestamp,
    ) -> Result<(SubmitResult, Option<Lease>), StoreError> {
        let is_paused = |job: &Job| self.paused.contains(&(job.tenant.clone(), job.queue.clone()));
        let comes_first = |job: &Job| {
            job.tenant == new.tenant
                && job.status == Status::Pending
                && job.run_at <= now
                && want.kinds.iter().any(|kind| kind.kind == job.kind)
                && !is_paused(job)
        };
        let starts = want.may_start(&new)
            && !self.paused.contains(&(new.tenant.clone(), new.queue.clone()))
            && !self.rows.values().any(|row| comes_first(&row.record.job));
        let id = new.id;
        let submitted = self.submit(new, now)?;
        if !starts || !submitted.created {
            return Ok((submitted, None));
        }
        let row = self.rows.get_mut(&id).expect("it was just inserted");
        let lease = row.lease(want, now)?;
        Ok((submitted, Some(lease)))
    }
}
