//! Expected usage of finished jobs, computed from the events that the checker saw.

use std::collections::BTreeMap;

use longhaul::job::{Event, JobId, Status, TenantId, Timestamp, Usage, hour_of};
use longhaul::store::MaintenanceStore as _;
use longhaul::store::StoreError;

use super::checker::{Cause, CheckResult, TrackedJob, Violation, ensure};
use super::simulation::Simulation;

/// Usage of one job that is not counted yet.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) key: Option<String>,
    pub(crate) counted: bool,
    /// Number of steps already counted, or copied from another job at the start.
    pub(crate) steps: usize,
    claimed_at: Option<Timestamp>,
    run: Bounds,
}

/// Bounds of the attempts' run time, in milliseconds. Only the store knows when the lease of a
/// rescued attempt expired, so its run time is not exact.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    least: u64,
    most: u64,
}

/// Expected usage of one hour.
#[derive(Debug, Default)]
pub(crate) struct ExpectedUsage {
    jobs: u64,
    steps: u64,
    run: Bounds,
}

/// Expected usage by tenant, hour and API key. There is only one kind.
pub(crate) type Sums = BTreeMap<(TenantId, Timestamp, Option<String>), ExpectedUsage>;

impl TrackedJob {
    fn meter(&mut self, event: &Event, cause: Cause, sums: &mut Sums) {
        if event.status == Status::Running {
            // A phase change is not a new claim.
            self.meter.claimed_at = self.meter.claimed_at.or(Some(event.at));
            return;
        }
        if let Some(claimed_at) = self.meter.claimed_at.take() {
            let ran = u64::try_from(event.at.since(claimed_at).as_millis()).unwrap();
            self.meter.run.most += ran;
            if cause != Cause::Sweep {
                self.meter.run.least += ran;
            }
        }
        if event.status.is_terminal() {
            let key = (self.tenant.clone(), hour_of(event.at), self.meter.key.clone());
            let expected = sums.entry(key).or_default();
            expected.jobs += u64::from(!std::mem::replace(&mut self.meter.counted, true));
            let counted = std::mem::replace(&mut self.meter.steps, self.steps.len());
            expected.steps += (self.steps.len() - counted) as u64;
            let run = std::mem::take(&mut self.meter.run);
            expected.run.least += run.least;
            expected.run.most += run.most;
        }
    }
}

impl Simulation {
    /// Adds the usage of a job that was just read.
    pub(crate) fn meter(&mut self, id: JobId, news: &[Event], cause: Cause) {
        let job = self.jobs.get_mut(&id).expect("it was just looked at");
        for event in news {
            job.meter(event, cause, &mut self.usage);
        }
    }

    /// Checks that recorded usage equals the usage of the finished jobs, each counted once.
    pub(crate) async fn look_at_usage(&mut self) -> CheckResult {
        let tenant = self.some_tenant();
        let all = (Timestamp::from_millis(0), Timestamp::MAX);
        let rows = self.truth().usage(&tenant, all.0, all.1).await;
        let rows = rows.map_err(|error| Violation(format!("[10] usage: {error}")))?;
        let mut told: BTreeMap<_, Usage> = BTreeMap::new();
        for row in rows {
            let twice = told.insert((tenant.clone(), row.hour, row.key), row.usage);
            ensure!(twice.is_none(), "[10] an hour is told twice");
        }
        for (key, expected) in self.usage.iter().filter(|((of, ..), _)| *of == tenant) {
            let Usage { jobs, run_ms, payload_bytes, steps, .. } =
                told.remove(key).unwrap_or_default();
            let right = (jobs, steps, payload_bytes) == (expected.jobs, expected.steps, 0)
                && (expected.run.least..=expected.run.most).contains(&run_ms);
            ensure!(right, "[10] {key:?}: {jobs} jobs, {run_ms} ms, {steps} steps; {expected:?}");
        }
        ensure!(told.is_empty(), "[10] nobody used {told:?}");
        Ok(())
    }

    pub(crate) async fn roll_up(&mut self) -> CheckResult {
        let answer = self.store().roll_up_usage(10).await;
        self.log(&format!("roll up: {answer:?}"));
        match answer {
            Ok(_) | Err(StoreError::Unavailable(_)) => Ok(()),
            Err(error) => Err(Violation(format!("[10] roll up: {error}"))),
        }
    }
}
