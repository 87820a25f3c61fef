//! Expected state of each job, compared with every read.
//!
//! A number in brackets identifies the violated invariant; `buggy_store.rs` plants a bug for most
//! of them.

use std::collections::{BTreeMap, BTreeSet};

use longhaul::job::{
    Command, Event, Fingerprint, JobId, Json, Name, Record, Status, Step, TenantId, Timestamp,
    Transition,
};

use super::usage::Meter;

/// A violated invariant.
#[derive(Debug)]
pub(crate) struct Violation(pub(crate) String);

pub(crate) type CheckResult<T = ()> = Result<T, Violation>;

macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::random::checker::Violation(format!($($why)+)));
        }
    };
}
pub(crate) use ensure;

/// Operation between two reads of a job, which bounds the possible changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Nothing,
    Claim,
    Report,
    Settle,
    Sweep,
    Cancel,
    Resume,
    Purge,
    Expire,
}

impl Cause {
    fn commands(self) -> &'static [Command] {
        match self {
            Self::Nothing | Self::Report | Self::Purge | Self::Expire => &[],
            Self::Claim => &[Command::Claim],
            Self::Settle => &[Command::Complete, Command::Fail, Command::Requeue, Command::Stop],
            Self::Sweep => &[Command::Fail, Command::Requeue, Command::Stop],
            Self::Cancel => &[Command::Cancel],
            Self::Resume => &[Command::Resume],
        }
    }
}

/// Holder of the right to write to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Nobody,
    /// The lease with this epoch.
    Lease(u64),
    /// A claim whose response was lost.
    Unknown,
}

pub(crate) struct TrackedJob {
    pub(crate) tenant: TenantId,
    pub(crate) key: Option<String>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) input: Json,
    /// The job at the last read.
    pub(crate) record: Record,
    /// Transitions seen by a watcher that reads after every change.
    pub(crate) seen: Vec<(u64, Status, Option<String>)>,
    pub(crate) holder: Holder,
    pub(crate) last_epoch: u64,
    /// True if the next claim counts as a new attempt; `None` if the contract leaves it open.
    pub(crate) charge: Option<bool>,
    pub(crate) settled: BTreeSet<u64>,
    pub(crate) steps: BTreeMap<String, (u32, Json)>,
    pub(crate) meter: Meter,
    pub(crate) gone: bool,
}

impl TrackedJob {
    /// Returns the expected state of a job that was just accepted.
    pub(crate) fn new(
        tenant: TenantId,
        key: Option<String>,
        fingerprint: Fingerprint,
        input: Json,
        record: Record,
    ) -> CheckResult<Self> {
        let statuses: Vec<Status> = record.history.iter().map(|event| event.status).collect();
        ensure!(statuses == [Status::Pending], "[5] a new job's history is {statuses:?}");
        ensure!(record.job.tenant == tenant, "[11] accepted for {}", record.job.tenant);
        let seen = record.since(0).iter().map(sight).collect();
        let (holder, charge) = (Holder::Nobody, Some(true));
        let (settled, steps) = (BTreeSet::new(), BTreeMap::new());
        Ok(Self {
            tenant,
            key,
            fingerprint,
            input,
            record,
            seen,
            holder,
            last_epoch: 0,
            charge,
            settled,
            steps,
            meter: Meter::default(),
            gone: false,
        })
    }

    pub(crate) fn id(&self) -> JobId {
        self.record.job.id
    }

    pub(crate) fn status(&self) -> Status {
        self.record.job.status
    }

    pub(crate) fn is_due(&self, now: Timestamp, paused: &BTreeSet<(TenantId, Name)>) -> bool {
        let job = &self.record.job;
        !self.gone
            && job.status == Status::Pending
            && job.run_at <= now
            && !paused.contains(&(job.tenant.clone(), job.queue.clone()))
    }

    /// Compares a new read with the expected state and returns the events since the last read.
    pub(crate) fn observe(&mut self, record: Record, cause: Cause) -> CheckResult<Vec<Event>> {
        let id = self.id();
        let (old, new) = (&self.record.job, &record.job);
        ensure!(new.version >= old.version, "[18] {id}: version {} → {}", old.version, new.version);
        ensure!(
            new.version > old.version || record == self.record,
            "[18] {id} changed under version {}: {:?} → {record:?}",
            new.version,
            self.record
        );
        ensure!(
            record.history.starts_with(&self.record.history),
            "[6] {id}: the past changed: {:?} → {:?}",
            self.record.history,
            record.history
        );
        ensure!(new.tenant == self.tenant, "[11] {id} went to {}", new.tenant);
        ensure!(
            record.result.is_some() == (new.status == Status::Completed),
            "[7] {id} is {} and its result is {:?}",
            new.status,
            record.result
        );
        ensure!(new.attempt <= new.max_attempts, "[8] {id}: {} attempts", new.attempt);
        let news = record.history[self.record.history.len()..].to_vec();
        self.check_transitions(&news, cause)?;
        let told = record.since(old.version);
        self.seen.extend(told.iter().map(sight));
        let last = record.history.last().map(|event| (event.status, event.attempt));
        ensure!(
            last == Some((new.status, new.attempt)),
            "[6] {id} is {} but its last event is {last:?}",
            new.status
        );
        if new.status != Status::Running {
            self.holder = Holder::Nobody;
        } else if cause == Cause::Claim && !news.is_empty() {
            self.holder = Holder::Unknown;
        }
        self.record = record;
        Ok(news)
    }

    fn check_transitions(&self, news: &[Event], cause: Cause) -> CheckResult {
        let id = self.id();
        let (mut status, mut attempt) = (self.record.job.status, self.record.job.attempt);
        let mut version = self.record.job.version;
        let stops = self.record.job.cancel_requested_at.is_some();
        for event in news {
            ensure!(event.version > version, "[6] {id}: event {} after {version}", event.version);
            let is_phase = status == Status::Running && event.status == Status::Running;
            let allowed = if is_phase {
                matches!(cause, Cause::Report | Cause::Settle | Cause::Cancel)
            } else {
                cause.commands().iter().any(|c| status.on(*c) == Transition::Move(event.status))
            };
            ensure!(allowed, "[5] {id}: {status} → {} by {cause:?}", event.status);
            let claimed = !is_phase && event.status == Status::Running;
            ensure!(
                event.attempt == attempt || (claimed && event.attempt == attempt + 1),
                "[8] {id}: attempt {attempt} → {} by {cause:?}",
                event.attempt
            );
            if stops && !is_phase && cause != Cause::Resume {
                let good = matches!(event.status, Status::Completed | Status::Cancelled);
                ensure!(good, "[15] {id} was asked to stop and is {}", event.status);
            }
            (status, attempt, version) = (event.status, event.attempt, event.version);
        }
        Ok(())
    }

    /// Checks that stored outputs never change and that no acknowledged one is missing.
    pub(crate) fn check_steps(&self, steps: &[Step]) -> CheckResult {
        let id = self.id();
        let stored: BTreeMap<String, (u32, Json)> = steps
            .iter()
            .map(|step| (step.name.clone(), (step.position, step.output.clone())))
            .collect();
        ensure!(stored == self.steps, "[4] {id}: steps {:?} became {stored:?}", self.steps);
        ensure!(steps.is_sorted_by_key(|step| step.position), "[4] {id}: out of order {steps:?}");
        Ok(())
    }

    /// Checks that a late watcher sees the same transitions as an eager one, except for
    /// intermediate progress.
    pub(crate) fn check_late_watcher(&self) -> CheckResult {
        let id = self.id();
        let late: Vec<_> = self.record.since(0).iter().map(sight).collect();
        let events: BTreeSet<u64> = self.record.history.iter().map(|event| event.version).collect();
        let eager = self.seen.iter().filter(|(version, ..)| events.contains(version));
        let late = late.iter().filter(|(version, ..)| events.contains(version));
        ensure!(
            eager.clone().eq(late.clone()),
            "[6] {id}: an eager watcher saw {:?}, a late one {:?}",
            eager.collect::<Vec<_>>(),
            late.collect::<Vec<_>>()
        );
        let ends = self.record.history.windows(2).filter(|pair| pair[0].status.is_terminal());
        for pair in ends {
            ensure!(pair[1].status == Status::Pending, "[6] {id}: {:?} after its end", pair[1]);
        }
        Ok(())
    }
}

fn sight(record: &Record) -> (u64, Status, Option<String>) {
    (record.job.version, record.job.status, record.job.phase.clone())
}
