//! Randomized tests of stores: many clients and replicas, faults, crashes and clock jumps.
//!
//! A violation reports its seed. `LONGHAUL_SEED=n` repeats that run; `LONGHAUL_RUNS=n` sets the
//! number of runs.

mod callers;
pub(crate) mod checker;
mod differential_store;
mod maintenance;
mod postgres;
pub(crate) mod simulation;
pub(crate) mod sqlite;
mod usage;
mod workers;

use std::sync::Arc;

use longhaul::clock::Clock;
use longhaul::store::Store;
use longhaul::store::sqlite::SqliteStore;

use crate::model_store::ModelStore;
use checker::Violation;
use simulation::{StoreFactory, play};

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text:?}")))
}

/// Runs the seed in `LONGHAUL_SEED`, or `runs` different seeds.
async fn hold_promises(runs: u64, house: impl Fn() -> Box<dyn StoreFactory>) {
    let seeds = match number("LONGHAUL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LONGHAUL_RUNS").unwrap_or(runs),
    };
    for seed in seeds {
        if let Err(Violation(why)) = play(seed, house()).await {
            panic!("LONGHAUL_SEED={seed}: {why}");
        }
    }
}

/// An in-memory store, which is lost when its process ends.
pub(crate) struct InMemory<F>(pub(crate) F);

impl<F: FnMut(Clock) -> Arc<dyn Store> + Send> StoreFactory for InMemory<F> {
    fn open(&mut self, clock: &Clock) -> Arc<dyn Store> {
        self.0(clock.clone())
    }
}

#[tokio::test]
async fn random_plans_keep_invariants_in_sqlite_on_disk() {
    hold_promises(10, || Box::new(sqlite::OnDisk::new())).await;
}

#[tokio::test]
async fn random_plans_keep_invariants_in_sqlite_in_memory() {
    let open = |clock| Arc::new(SqliteStore::memory(clock).unwrap()) as Arc<dyn Store>;
    hold_promises(20, || Box::new(InMemory(open))).await;
}

/// The reference store and the checker were written independently, so their agreement supports both.
#[tokio::test]
async fn random_plans_keep_invariants_in_model_store() {
    hold_promises(100, || {
        Box::new(InMemory(|clock| Arc::new(ModelStore::new(clock)) as Arc<dyn Store>))
    })
    .await;
}
