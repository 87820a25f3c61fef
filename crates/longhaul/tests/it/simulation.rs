//! Deterministic simulation of several engines on one store, in virtual time.
//!
//! From a seed follows everything: a cluster of two to four engines, clients that submit, cancel and resume jobs, and
//! faults of the connections between the engines and the store. Calls take time, fail before or after their commit, or
//! fall silent; a replica or all of them lose the store for up to a minute; connections freeze; engines are killed,
//! stopped and replaced. The engines are real. The store is the reference store, because a real one has threads.
//!
//! A run takes some minutes of [`Clock::virtual_time`] and some milliseconds of the machine's. Afterwards all faults end, every
//! job has a minute to finish, and a checker compares what the store holds with a ledger that the handlers and clients
//! wrote. A violation is printed with the ledger, and `TEST_SEED=n` repeats it.
//!
//! `planted.rs` has bugs of the store's wrapper that have to be found. `crates/longhaul/tests/mutants.sh engine` breaks
//! the engine itself.

mod checker;
mod clients;
mod cluster;
mod ledger;
mod link;
mod plan;
mod planted;
mod workload;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longhaul::Clock;
use longhaul::job::{Job, JobId, TenantId};
use longhaul::store::{Filter, JobStore as _, PageRequest};
use tokio_util::task::TaskTracker;

use crate::random::checker::{CheckResult, Violation};
use crate::random::seeds;
use checker::{FinalJob, History};
use clients::Client;
use cluster::Cluster;
use ledger::Event;
use plan::{Plan, START};
use planted::Bug;
use world::World;

/// Seeds of `make test`.
const SEEDS: u64 = 40;
/// Time in which all jobs end after the last fault.
const RECOVERY_MAX: Duration = Duration::from_mins(1);
/// Maximum virtual duration of a run, which lasts for some minutes.
const RUN_MAX: Duration = Duration::from_hours(1);

/// A finished run.
struct Run {
    verdict: CheckResult,
    /// The ledger, one line for each entry.
    trace: Vec<String>,
}

/// Runs the plan of a seed.
fn simulate(seed: u64, bug: Bug) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let (history, is_complete) = runtime.block_on(async {
        let world = World::new(Plan::new(seed), Clock::virtual_time(START), bug);
        let is_complete = tokio::time::timeout(RUN_MAX, play(&world)).await.is_ok();
        let (jobs, ledger) = (final_jobs(&world).await, world.ledger.take());
        (History { plan: Plan::new(seed), ledger, jobs }, is_complete)
    });
    let verdict = if is_complete {
        checker::check(&history)
    } else {
        Err(Violation(
            "[hang] an engine did not start or stop, or a call never returned".to_owned(),
        ))
    };
    Run { verdict, trace: trace(&history) }
}

/// Formats the ledger, with the ids of jobs as in violations.
fn trace(history: &History) -> Vec<String> {
    let ids = |line: String| {
        history.jobs.keys().fold(line, |line, id| line.replace(&format!("{id:?}"), &id.to_string()))
    };
    history.ledger.iter().map(|entry| ids(entry.to_string())).collect()
}

async fn play(world: &Arc<World>) {
    let (clock, cluster, tasks) = (&world.clock, Cluster::new(world), TaskTracker::new());
    cluster.start_all().await;
    cluster.follow_plan(&tasks);
    for number in 0..world.plan.clients {
        let client = Client::new(world, &cluster, u64::try_from(number).unwrap());
        tasks.spawn(client.run());
    }
    let heals_at = world.plan.heals_at;
    cluster.look_at_registry(clock, heals_at).await;
    clock.sleep_until(heals_at).await;
    tasks.close();
    tasks.wait().await;
    cluster.start_all().await;
    world.ledger.record("", Event::Healed);
    let ends_at = clock.now().after(RECOVERY_MAX);
    while clock.now() < ends_at && jobs(world).await.iter().any(|job| !job.status.is_terminal()) {
        clock.sleep(Duration::from_secs(1)).await;
    }
    cluster.stop_all().await;
}

/// Returns all jobs of the store.
async fn jobs(world: &World) -> Vec<Job> {
    let all = PageRequest::new(usize::MAX, None);
    let page = world.store.jobs(&TenantId::default(), &Filter::default(), &all).await.unwrap();
    assert!(page.next.is_none(), "a run has fewer jobs");
    page.jobs
}

async fn final_jobs(world: &World) -> BTreeMap<JobId, FinalJob> {
    let mut ended = BTreeMap::new();
    for Job { id, tenant, .. } in jobs(world).await {
        let record = world.store.job(&tenant, id).await.unwrap();
        let steps = world.store.steps(&tenant, id).await.unwrap();
        ended.insert(id, FinalJob { record, steps });
    }
    ended
}

#[test]
fn simulation_keeps_all_promises() {
    let seeds = seeds(SEEDS);
    println!("seeds {seeds:?}");
    for seed in seeds {
        let Run { verdict, trace } = simulate(seed, Bug::None);
        if let Err(Violation(violation)) = verdict {
            panic!("{}\nTEST_SEED={seed}: {violation}", trace.join("\n"));
        }
    }
}

#[test]
fn simulation_of_a_seed_is_repeatable() {
    for seed in seeds(SEEDS / 4) {
        let (first, second) = (simulate(seed, Bug::None).trace, simulate(seed, Bug::None).trace);
        let difference = first.iter().zip(&second).find(|(first, second)| first != second);
        assert_eq!(difference, None, "TEST_SEED={seed}");
        assert_eq!(first.len(), second.len(), "TEST_SEED={seed}");
    }
}
