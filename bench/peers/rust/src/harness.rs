//! The scenarios, the same for each peer and in the terms of `longhaul bench`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use sqlx::postgres::PgPool;
use tokio::task::JoinSet;

use crate::load::{self, Load};
use crate::plan::Plan;

const PICKUP_EVERY: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(2);
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);
/// The same number as for peers in Node, whose hot code has to be compiled first.
const WARM_UP_CALLS: usize = 200;
const WARM_UP_PICKUPS: usize = 50;
const STEPS: usize = 3;

/// A system to measure. Its handlers start with [`load::ran`].
pub trait Peer: Sized + Send + Sync + 'static {
    /// Jobs of one call that submits many; none where no such call is documented.
    const BULK: Option<usize>;
    /// Counts the jobs that are not settled.
    const UNSETTLED: &'static str;

    /// Creates the tables. Nothing runs yet.
    fn connect(plan: &Plan) -> impl Future<Output = anyhow::Result<Self>> + Send;
    fn submit(&self, load: Load) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// As submit, or a documented call that bypasses the queue.
    fn start(&self, load: Load) -> impl Future<Output = anyhow::Result<()>> + Send {
        self.submit(load)
    }

    fn submit_all(&self, loads: Vec<Load>) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Starts workers that run until the process ends.
    fn work(&self, plan: &Plan) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Runs a job of three steps to its result.
    fn three_steps(&self, _load: Load) -> impl Future<Output = anyhow::Result<()>> + Send {
        async { anyhow::bail!("has no steps") }
    }
}

pub async fn run<P: Peer>(plan: &Plan) -> anyhow::Result<Value> {
    let peer = Arc::new(P::connect(plan).await?);
    match plan.scenario.as_str() {
        "submit" => submit(plan, peer).await,
        "bulk" => bulk(plan, &*peer).await,
        "drain" => drain(plan, peer).await,
        "pickup" => pickup(plan, &*peer).await,
        "steps" => steps(plan, peer).await,
        other => anyhow::bail!("no scenario {other}"),
    }
}

async fn submit<P: Peer>(plan: &Plan, peer: Arc<P>) -> anyhow::Result<Value> {
    let filler = filler(plan);
    let call = move |peer: Arc<P>| {
        let load = Load::new(&filler);
        async move { peer.submit(load).await }
    };
    callers(plan.concurrency, plan.concurrency + WARM_UP_CALLS, &peer, call.clone()).await?;
    plan.mark("start");
    let (seconds, took) = callers(plan.concurrency, plan.jobs, &peer, call).await?;
    Ok(report(plan, seconds, took, 0))
}

async fn bulk<P: Peer>(plan: &Plan, peer: &P) -> anyhow::Result<Value> {
    P::BULK.context("documents no bulk insert")?;
    peer.submit(Load::new(&filler(plan))).await?;
    plan.mark("start");
    let (seconds, took) = submit_in_bulk(plan, peer).await?;
    Ok(report(plan, seconds, took, 0))
}

/// From the start of the workers until the last job is settled in the database.
async fn drain<P: Peer>(plan: &Plan, peer: Arc<P>) -> anyhow::Result<Value> {
    if P::BULK.is_some() {
        submit_in_bulk(plan, &*peer).await?;
    } else {
        let filler = filler(plan);
        let call = move |peer: Arc<P>| {
            let load = Load::new(&filler);
            async move { peer.submit(load).await }
        };
        callers(32, plan.jobs, &peer, call).await?;
    }
    let db = PgPool::connect(&plan.database).await?;
    // Otherwise autovacuum would run in the middle of some runs and not of others.
    sqlx::query("vacuum analyze").execute(&db).await?;
    let mut runs = load::runs();
    plan.mark("start");
    let timer = Instant::now();
    peer.work(plan).await?;
    let all_ran = async {
        for _ in 0..plan.jobs {
            runs.recv().await.context("the workers stopped")?;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(GIVE_UP_AFTER, all_ran).await.context("not all jobs ran")??;
    while sqlx::query_scalar::<_, i64>(P::UNSETTLED).fetch_one(&db).await? > 0 {
        anyhow::ensure!(timer.elapsed() < GIVE_UP_AFTER, "not all jobs were settled");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(report(plan, timer.elapsed(), Vec::new(), 0))
}

/// One job at a time on idle workers.
async fn pickup<P: Peer>(plan: &Plan, peer: &P) -> anyhow::Result<Value> {
    let filler = filler(plan);
    let mut runs = load::runs();
    peer.work(plan).await?;
    let mut timer = tokio::time::interval(PICKUP_EVERY);
    let mut took = Vec::new();
    let start = Instant::now();
    for number in 0..WARM_UP_PICKUPS + plan.jobs {
        if number == WARM_UP_PICKUPS {
            plan.mark("start");
            timer.reset();
        }
        timer.tick().await;
        peer.start(Load::new(&filler)).await?;
        let waited = tokio::time::timeout(GIVE_UP_AFTER, runs.recv()).await;
        let waited = waited.context("not picked up")?.context("the workers stopped")?;
        if number >= WARM_UP_PICKUPS {
            took.push(waited);
        }
    }
    Ok(report(plan, start.elapsed(), took, 0))
}

async fn steps<P: Peer>(plan: &Plan, peer: Arc<P>) -> anyhow::Result<Value> {
    peer.work(plan).await?;
    let filler = filler(plan);
    let call = move |peer: Arc<P>| {
        let load = Load::new(&filler);
        async move { peer.three_steps(load).await }
    };
    callers(plan.concurrency, plan.concurrency + WARM_UP_CALLS, &peer, call.clone()).await?;
    plan.mark("start");
    let (seconds, took) = callers(plan.concurrency, plan.jobs, &peer, call).await?;
    Ok(report(plan, seconds, took, STEPS))
}

async fn submit_in_bulk<P: Peer>(
    plan: &Plan,
    peer: &P,
) -> anyhow::Result<(Duration, Vec<Duration>)> {
    let (filler, size) = (filler(plan), P::BULK.unwrap_or(1));
    let timer = Instant::now();
    let mut took = Vec::new();
    for first in (0..plan.jobs).step_by(size) {
        let one = Instant::now();
        let many = size.min(plan.jobs - first);
        peer.submit_all((0..many).map(|_| Load::new(&filler)).collect()).await?;
        took.push(one.elapsed());
    }
    Ok((timer.elapsed(), took))
}

/// Measures the total time and the time of each of `jobs` calls.
async fn callers<P: Peer, C, F>(
    callers: usize,
    jobs: usize,
    peer: &Arc<P>,
    call: C,
) -> anyhow::Result<(Duration, Vec<Duration>)>
where
    C: Fn(Arc<P>) -> F + Clone + Send + 'static,
    F: Future<Output = anyhow::Result<()>> + Send,
{
    let turns = Arc::new(AtomicUsize::new(0));
    let timer = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (peer, call, turns) = (Arc::clone(peer), call.clone(), Arc::clone(&turns));
        tasks.spawn(async move {
            let mut took = Vec::new();
            while turns.fetch_add(1, Relaxed) < jobs {
                let one = Instant::now();
                call(Arc::clone(&peer)).await?;
                took.push(one.elapsed());
            }
            anyhow::Ok(took)
        });
    }
    let mut took = Vec::with_capacity(jobs);
    while let Some(done) = tasks.join_next().await {
        took.extend(done??);
    }
    Ok((timer.elapsed(), took))
}

fn filler(plan: &Plan) -> String {
    "x".repeat(plan.input_bytes)
}

fn report(plan: &Plan, took: Duration, mut each: Vec<Duration>, steps: usize) -> Value {
    plan.mark("end");
    let seconds = took.as_secs_f64();
    let rate = |count: usize| count as f64 / seconds;
    let mut line = json!({
        "scenario": plan.scenario, "jobs": plan.jobs, "seconds": seconds, "jobsPerS": rate(plan.jobs),
    });
    if steps > 0 {
        line["stepsPerS"] = json!(rate(plan.jobs * steps));
    }
    each.sort();
    if !each.is_empty() {
        // The same ranks as those of `longhaul bench`.
        let at =
            |percent: usize| each[(each.len() * percent).div_ceil(100) - 1].as_secs_f64() * 1e3;
        line["p50Ms"] = json!(at(50));
        line["p99Ms"] = json!(at(99));
    }
    line
}
