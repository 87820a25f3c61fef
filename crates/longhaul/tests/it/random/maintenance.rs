//! Maintenance for all tenants, crashes and recovery.

use longhaul::job::Status;
use longhaul::store::conformance::done;
use longhaul::store::faulty::{FaultPlan, FaultyStore};
use longhaul::store::{JobStore as _, MaintenanceStore as _};
use longhaul::store::{Settlement, StoreError};
use rand::RngExt;

use super::checker::{Cause, CheckResult, Holder, TrackedJob, Violation, ensure};
use super::simulation::Simulation;

/// Number of rescue and claim rounds after which an unfinished job counts as stuck. A rescue takes
/// at least one job of a dead worker, and the rest of a round ends all due jobs.
const ROUNDS_TO_END: usize = 60;

impl Simulation {
    pub(crate) async fn rescue(&mut self) -> CheckResult {
        let few = self.random.random_range(1..20);
        let limit = if self.house.sweeps_all() { 1_000 } else { few };
        let answer = self.store().rescue(limit).await;
        let told = answer.as_ref().map(|jobs| jobs.iter().map(|job| job.id).collect::<Vec<_>>());
        self.log(&format!("sweep: {told:?}"));
        for lease in &self.leases {
            let job = self.jobs.get_mut(&lease.job.id).unwrap();
            let swept = told.as_ref().is_ok_and(|ids| ids.contains(&lease.job.id));
            let live =
                job.holder == Holder::Lease(lease.epoch) && lease.expires_at > self.clock.now();
            ensure!(!swept || !live, "[3] {} was swept from under {}", lease.job.id, lease.epoch);
        }
        match answer {
            Ok(jobs) => {
                ensure!(jobs.len() <= limit, "{} swept", jobs.len());
                for job in jobs {
                    let news = self.look(job.id, Cause::Sweep).await?;
                    ensure!(news.len() == 1, "[6] sweep of {} is told as {news:?}", job.id);
                    let tracked = self.jobs.get_mut(&job.id).unwrap();
                    tracked.charge = Some(true);
                    ensure!(job == tracked.record.job, "sweep answers {job:?}");
                }
                Ok(())
            }
            Err(StoreError::Unavailable(_)) => {
                let before: Vec<_> =
                    self.jobs.values().map(|job| (job.id(), job.status())).collect();
                self.look_at_all(Cause::Sweep).await?;
                for (id, status) in before {
                    let job = self.jobs.get_mut(&id).unwrap();
                    if job.status() != status {
                        job.charge = Some(true);
                    }
                }
                Ok(())
            }
            Err(error) => Err(Violation(format!("sweep: {error}"))),
        }
    }

    pub(crate) async fn expire(&mut self) -> CheckResult {
        self.roll_up().await?;
        let answer = self.store().prune(1_000).await;
        self.log(&format!("expire: {answer:?}"));
        let kept = self.jobs.values().filter(|job| !job.gone).count();
        self.look_at_all(Cause::Expire).await?;
        let deleted = kept - self.jobs.values().filter(|job| !job.gone).count();
        ensure!(answer.is_err() || answer == Ok(deleted), "{deleted} expired, told {answer:?}");
        if answer.is_ok() {
            let now = self.now();
            let outlived = self
                .jobs
                .values()
                .find(|job| !job.gone && job.record.job.expires_at.is_some_and(|at| at < now));
            ensure!(outlived.is_none(), "[12] kept: {:?}", outlived.map(|job| &job.record.job));
        }
        Ok(())
    }

    /// Simulates the death of a replica: its leases stay unused until they expire.
    pub(crate) fn forget(&mut self) {
        let left = self.random.random_range(0..=self.leases.len());
        self.leases.truncate(left);
        self.log("a replica dies");
    }

    /// Restarts the store's process, by a clean shutdown or a kill between two commits.
    pub(crate) async fn restart(&mut self, seed: u64, step: usize) -> CheckResult {
        let kill = self.random.random_bool(0.5);
        self.log(&format!("restart, killed: {kill}"));
        let store = self.store.take().expect("the store is open").into_inner();
        let store = self.house.restart(store, &self.clock, kill);
        let per_mille = [0, 20, 60][usize::try_from(seed % 3).unwrap()];
        let plan = FaultPlan::seeded(seed.wrapping_add(step as u64), per_mille);
        self.store = Some(FaultyStore::new(store, plan));
        // A store with a single process may end the leases of its previous process.
        let now = self.now();
        self.leases.iter_mut().for_each(|lease| lease.expires_at = lease.expires_at.min(now));
        self.look_at_all(Cause::Nothing).await?;
        let ids: Vec<_> = self.jobs.keys().copied().collect();
        for id in ids {
            self.look_at_steps(id).await?;
        }
        Ok(())
    }

    /// Stops the faults, advances the clock, and ends and deletes every job.
    pub(crate) async fn heal_and_end(&mut self) -> CheckResult {
        self.log("all heals");
        self.store().follow(FaultPlan::none());
        for (tenant, queue) in std::mem::take(&mut self.paused) {
            let opened = self.store().pause_queue(&tenant, &queue, false).await;
            ensure!(opened.is_ok(), "[19] {opened:?}");
        }
        for _ in 0..ROUNDS_TO_END {
            if self.jobs.values().all(|job| job.gone || job.status().is_terminal()) {
                break;
            }
            self.outlast_leases();
            self.rescue().await?;
            self.claim_up_to(100).await?;
            self.complete_what_is_held().await?;
        }
        let stuck = self.jobs.values().find(|job| !job.gone && !job.status().is_terminal());
        ensure!(stuck.is_none(), "[19] stuck: {:?}", stuck.map(|job| &job.record.job));
        self.look_at_all(Cause::Nothing).await?;
        for job in self.jobs.values() {
            job.check_late_watcher()?;
        }
        self.delete_all().await
    }

    async fn complete_what_is_held(&mut self) -> CheckResult {
        for lease in self.leases.clone() {
            if self.jobs[&lease.job.id].holder == Holder::Lease(lease.epoch) {
                let (phases, progress) = (Vec::new(), None);
                let end = Settlement {
                    lease: lease.to_ref(),
                    outcome: done(),
                    phases,
                    progress,
                    artifacts: Vec::new(),
                    tokens: longhaul::job::Tokens::default(),
                };
                self.settle_as(end, &lease).await?;
            }
        }
        Ok(())
    }

    async fn delete_all(&mut self) -> CheckResult {
        let kept: Vec<_> = self.jobs.values().filter(|job| !job.gone).map(TrackedJob::id).collect();
        for id in kept {
            ensure!(self.jobs[&id].status() != Status::Running, "[19] {id} still runs");
            self.purge_one(id).await?;
        }
        // Deletes leases whose jobs have all finished.
        self.outlast_leases();
        self.rescue().await?;
        for _ in 0..10 {
            self.look_at_usage().await?;
            self.roll_up().await?;
        }
        drop(self.store.take());
        self.house.find_orphans().map_err(|orphans| Violation(format!("[13] {orphans}")))
    }
}
