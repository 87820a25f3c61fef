//! DBOS for Rust. Submits go through a client, steps run where they are called; finished jobs are kept.

use std::time::Duration;

use dbos::{
    Client, ClientConfig, Config, DBOS, QueueConflict, QueueOptions, WorkflowHandle, WorkflowRef,
};

use crate::harness::Peer;
use crate::load::{self, Load};
use crate::plan::Plan;

const APP: &str = "bench";
const QUEUE: &str = "bench";
const WORKERS: i32 = 1_000;
/// One second by default.
const POLL_EVERY: Duration = Duration::from_millis(5);

async fn noop(load: Load) -> dbos::Result<()> {
    load::ran(&load);
    Ok(())
}

async fn three_steps(_load: Load) -> dbos::Result<()> {
    for name in ["one", "two", "three"] {
        dbos::step(name, || async { dbos::Result::Ok(()) }).await?;
    }
    Ok(())
}

pub struct Dbos {
    client: Client,
    worker: DBOS,
    noop: WorkflowRef<Load, ()>,
    three_steps: WorkflowRef<Load, ()>,
}

impl Peer for Dbos {
    const BULK: Option<usize> = None;
    const UNSETTLED: &'static str =
        "select count(*) from dbos.workflow_status where status <> 'SUCCESS'";

    async fn connect(plan: &Plan) -> anyhow::Result<Self> {
        let config = Config {
            app_version: Some("1".to_owned()),
            max_connections: plan.connections(),
            ..Config::new(APP, &plan.database)
        };
        // Makes the tables and the queue and listens to none.
        let setup = DBOS::new(Config { listen_queues: Some(Vec::new()), ..config.clone() });
        setup.launch().await?;
        let limits = QueueOptions {
            worker_concurrency: Some(WORKERS),
            polling_interval: POLL_EVERY,
            ..QueueOptions::default()
        };
        setup.register_queue(QUEUE, limits, QueueConflict::AlwaysUpdate).await?;
        setup.shutdown().await;
        let client = Client::connect(ClientConfig {
            app_name: Some(APP.to_owned()),
            max_connections: plan.connections(),
            ..ClientConfig::new(&plan.database)
        })
        .await?;
        // Only a drain needs the queue; its polls would slow down the others.
        let listen_queues = (plan.scenario != "drain").then(Vec::new);
        let worker = DBOS::new(Config { listen_queues, ..config });
        let noop = worker.register_workflow("noop", noop)?;
        let three_steps = worker.register_workflow("three_steps", three_steps)?;
        Ok(Self { client, worker, noop, three_steps })
    }

    async fn submit(&self, load: Load) -> anyhow::Result<()> {
        let _: WorkflowHandle<()> = self.client.enqueue("noop", QUEUE, load).await?;
        Ok(())
    }

    /// Bypasses the queue: inserts a row and runs in this process.
    async fn start(&self, load: Load) -> anyhow::Result<()> {
        self.noop.start(load).await?;
        Ok(())
    }

    async fn submit_all(&self, _loads: Vec<Load>) -> anyhow::Result<()> {
        anyhow::bail!("documents no bulk insert")
    }

    async fn work(&self, _plan: &Plan) -> anyhow::Result<()> {
        Ok(self.worker.launch().await?)
    }

    async fn three_steps(&self, load: Load) -> anyhow::Result<()> {
        Ok(self.three_steps.run(load).await?)
    }
}
