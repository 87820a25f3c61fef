//! River for Rust. Completions are batched by default; finished jobs are kept.

use std::time::Duration;

use riverqueue::migrate::PostgresMigrator;
use riverqueue::{
    BoxError, Client, InsertOpts, Job, JobArgs, QueueConfig, WorkContext, WorkOutcome, Workers,
};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

use crate::harness::Peer;
use crate::load::{self, Load};
use crate::plan::Plan;

/// Also the size of a claim.
const WORKERS: usize = 1_000;
/// The minimum for fetches and notifications. Defaults to 100 ms.
const FETCH_COOLDOWN: Duration = Duration::from_millis(1);

#[derive(Clone, Serialize, Deserialize, JobArgs)]
#[river(kind = "noop")]
struct Noop {
    load: Load,
}

async fn noop(_context: WorkContext, job: Job<Noop>) -> Result<WorkOutcome, BoxError> {
    load::ran(&job.args.load);
    Ok(WorkOutcome::Complete)
}

pub struct River {
    pool: PgPool,
    client: Client,
}

impl Peer for River {
    const BULK: Option<usize> = Some(1_000);
    const UNSETTLED: &'static str = "select count(*) from river_job where state <> 'completed'";

    async fn connect(plan: &Plan) -> anyhow::Result<Self> {
        let options = PgPoolOptions::new().max_connections(plan.connections());
        let pool = options.connect(&plan.database).await?;
        PostgresMigrator::new(pool.clone()).migrate_up().await?;
        let client = Client::builder(pool.clone())
            .allow_unregistered_job_kinds()
            .fetch_cooldown(FETCH_COOLDOWN)
            .build()?;
        Ok(Self { pool, client })
    }

    async fn submit(&self, load: Load) -> anyhow::Result<()> {
        self.client.insert(Noop { load }).await?;
        Ok(())
    }

    async fn submit_all(&self, loads: Vec<Load>) -> anyhow::Result<()> {
        let jobs = loads.into_iter().map(|load| (Noop { load }, InsertOpts::default()));
        self.client.insert_many(jobs).await?;
        Ok(())
    }

    async fn work(&self, _plan: &Plan) -> anyhow::Result<()> {
        let mut workers = Workers::new();
        workers.add_fn(noop)?;
        let client = Client::builder(self.pool.clone())
            .workers(workers)
            .fetch_cooldown(FETCH_COOLDOWN)
            .queue("default", QueueConfig::new(WORKERS))
            .build()?;
        client.start()?.detach();
        Ok(())
    }
}
