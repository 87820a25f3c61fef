//! graphile_worker, the Rust rewrite: a local queue, and completions by the batch. Finished jobs are deleted.

use std::sync::Arc;
use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, Worker, WorkerContext,
    WorkerOptions,
};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;

use crate::harness::Peer;
use crate::load::{self, Load};
use crate::plan::Plan;

const WORKERS: usize = 24;
const LOCAL_QUEUE: usize = 500;
const BATCH_DELAY: Duration = Duration::from_millis(1);

#[derive(Clone, Serialize, Deserialize)]
struct Noop {
    load: Load,
}

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, _context: WorkerContext) -> impl IntoTaskHandlerResult {
        load::ran(&self.load);
        Ok::<(), String>(())
    }
}

pub struct GraphileWorker {
    worker: Arc<Worker>,
    utils: graphile_worker::WorkerUtils,
}

impl Peer for GraphileWorker {
    const BULK: Option<usize> = Some(5_000);
    const UNSETTLED: &'static str = "select count(*) from graphile_worker._private_jobs";

    async fn connect(plan: &Plan) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(plan.connections());
        let options = WorkerOptions::default()
            .concurrency(WORKERS)
            .local_queue(LocalQueueConfig::default().with_size(LOCAL_QUEUE))
            .complete_job_batch_delay(BATCH_DELAY)
            .fail_job_batch_delay(BATCH_DELAY)
            .listen_os_shutdown_signals(false)
            .define_job::<Noop>()
            .pg_pool(pool.connect(&plan.database).await?);
        let worker = Arc::new(options.init().await?);
        let utils = worker.create_utils();
        Ok(Self { worker, utils })
    }

    async fn submit(&self, load: Load) -> anyhow::Result<()> {
        self.utils.add_job(Noop { load }, JobSpec::default()).await?;
        Ok(())
    }

    async fn submit_all(&self, loads: Vec<Load>) -> anyhow::Result<()> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = loads.into_iter().map(|load| (Noop { load }, &spec)).collect();
        self.utils.add_jobs::<Noop>(&jobs).await?;
        Ok(())
    }

    async fn work(&self, _plan: &Plan) -> anyhow::Result<()> {
        let worker = Arc::clone(&self.worker);
        tokio::spawn(async move { worker.run().await });
        Ok(())
    }
}
