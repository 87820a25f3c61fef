//! Clients: submit jobs, repeat submissions, cancel and resume jobs, through any engine.

use std::sync::Arc;
use std::time::Duration;

use longhaul::{Engine, JobId};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::cluster::{Cluster, Member};
use super::ledger::Event;
use super::plan::{derive, seconds};
use super::workload::{KIND, Work};
use super::world::World;

/// Time before the end of all faults in which clients start nothing more.
const REST: Duration = Duration::from_secs(20);
/// Clients control one of so many latest jobs, because older ones have ended.
const LATEST: usize = 6;

pub(super) struct Client {
    world: Arc<World>,
    cluster: Arc<Cluster>,
    number: u64,
    random: StdRng,
    submissions: Vec<Submission>,
}

#[derive(Clone)]
struct Submission {
    key: String,
    work: Work,
    max_attempts: u32,
}

impl Client {
    pub(super) fn new(world: &Arc<World>, cluster: &Arc<Cluster>, number: u64) -> Self {
        let random = StdRng::seed_from_u64(derive(world.plan.seed, &[4, number]));
        let (world, cluster) = (Arc::clone(world), Arc::clone(cluster));
        Self { world, cluster, number, random, submissions: Vec::new() }
    }

    pub(super) async fn run(mut self) {
        let ends_at = self.world.plan.heals_at.before(REST);
        while self.world.clock.now() < ends_at {
            let pause = seconds(&mut self.random, 0.01, 6.0);
            self.world.clock.sleep(pause).await;
            match self.random.random_range(0..100) {
                0..40 => self.submit_new().await,
                40..50 => self.submit_again().await,
                50..85 => self.cancel().await,
                _ => self.resume().await,
            }
        }
    }

    async fn submit_new(&mut self) {
        let submission = Submission {
            key: format!("{}-{}", self.number, self.submissions.len()),
            work: Work::draw(&mut self.random),
            max_attempts: self.random.random_range(1..=3),
        };
        self.submissions.push(submission.clone());
        self.submit(&submission).await;
    }

    async fn submit_again(&mut self) {
        if let Some(submission) = self.submissions.choose(&mut self.random).cloned() {
            self.submit(&submission).await;
        }
    }

    /// Submits a job until an engine accepts it.
    async fn submit(&mut self, submission: &Submission) {
        for _ in 0..8 {
            let Submission { key, work, max_attempts } = submission.clone();
            let job = self
                .call("submit", async |engine| {
                    let job = engine.submit_raw(KIND, &work).key(&key).max_attempts(max_attempts);
                    job.await.map(|job| job.id())
                })
                .await;
            if let Some((job, replica)) = job {
                let mut jobs = self.world.jobs.lock().unwrap();
                if !jobs.contains(&job) {
                    jobs.push(job);
                }
                drop(jobs);
                self.world.ledger.record(&replica, Event::Accepted { key, job });
                return;
            }
            let pause = seconds(&mut self.random, 0.1, 2.0);
            self.world.clock.sleep(pause).await;
        }
    }

    async fn cancel(&mut self) {
        let Some(job) = self.some_job() else { return };
        if let Some((_, replica)) =
            self.call("cancel", async |engine| engine.cancel(job).await).await
        {
            self.world.ledger.record(&replica, Event::CancelAcknowledged { job });
        }
    }

    async fn resume(&mut self) {
        let Some(job) = self.some_job() else { return };
        if let Some((_, replica)) =
            self.call("resume", async |engine| engine.resume(job).await).await
        {
            self.world.ledger.record(&replica, Event::Resumed { job });
        }
    }

    fn some_job(&mut self) -> Option<JobId> {
        let jobs = self.world.jobs.lock().unwrap();
        jobs[jobs.len().saturating_sub(LATEST)..].choose(&mut self.random).copied()
    }

    /// Calls one of the engines. Returns its name with the result, and `None` after an error or if it was killed.
    async fn call<T, E: std::fmt::Display>(
        &mut self,
        name: &'static str,
        work: impl AsyncFnOnce(Engine) -> Result<T, E>,
    ) -> Option<(T, String)> {
        let Member { engine, link } = self.cluster.pick(&mut self.random)?;
        let result = tokio::select! {
            biased;
            () = link.killed() => return None,
            result = work(engine) => result,
        };
        let refused = |error: &E| {
            let error = error.to_string();
            self.world.ledger.record(&link.name, Event::Refused { call: name, error });
        };
        result.inspect_err(refused).ok().map(|result| (result, link.name.clone()))
    }
}
