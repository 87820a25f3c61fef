//! apalis on apalis-postgres: batches, woken by NOTIFY. Finished jobs are kept.

use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage};
use sqlx::postgres::{PgPool, PgPoolOptions};

use crate::harness::Peer;
use crate::load::{self, Load};
use crate::plan::Plan;

const QUEUE: &str = "noop";
const BATCH: usize = 500;
/// Beside NOTIFY alone it now and then leaves jobs until its next heartbeat, after 30 s.
const POLL_EVERY: Duration = Duration::from_millis(100);

async fn noop(load: Load) {
    load::ran(&load);
}

pub struct Apalis {
    pool: PgPool,
}

impl Apalis {
    fn storage(&self) -> PostgresStorage<Load> {
        // A claim locks its batch as it is; the second lock, of each job as it starts, is left out
        // as in the crate's own examples.
        let config = Config::default().queue(QUEUE).batch_size(BATCH).lock_tasks(false);
        PostgresStorage::new(&self.pool).with_config(config)
    }
}

impl Peer for Apalis {
    const BULK: Option<usize> = Some(5_000);
    const UNSETTLED: &'static str = "select count(*) from apalis.jobs where status <> 'Done'";

    async fn connect(plan: &Plan) -> anyhow::Result<Self> {
        let options = PgPoolOptions::new().max_connections(plan.connections());
        let pool = options.connect(&plan.database).await?;
        PostgresStorage::setup(&pool).await?;
        Ok(Self { pool })
    }

    async fn submit(&self, load: Load) -> anyhow::Result<()> {
        self.storage().push(load).await.map_err(|error| anyhow::anyhow!("{error}"))
    }

    async fn submit_all(&self, loads: Vec<Load>) -> anyhow::Result<()> {
        self.storage().push_bulk(loads).await.map_err(|error| anyhow::anyhow!("{error}"))
    }

    async fn work(&self, _plan: &Plan) -> anyhow::Result<()> {
        let poll = Strategy::new().interval(POLL_EVERY);
        let backend = self.storage().with_pubsub().poll_with_strategy(poll);
        let worker =
            WorkerBuilder::new("bench").backend(backend).parallelize(tokio::spawn).build(noop);
        // Its future cannot be spawned, the compiler finds; the jobs themselves are.
        let runtime = tokio::runtime::Handle::current();
        std::thread::spawn(move || runtime.block_on(worker.run()));
        Ok(())
    }
}
