//! Randomized tests of stores: many clients and replicas, faults, crashes and clock jumps.
//!
//! A violation reports its seed, and `TEST_SEED=n` repeats that plan. Otherwise the seeds begin at `TEST_FIRST_SEED`,
//! which `make test` derives from the commit, so that each commit tries other plans and can be tried again. A test that
//! nextest repeats continues with the next seeds. The number of plans grows with `PROPTEST_CASES`, as that of other
//! properties does.

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

/// Number of cases of a property if `PROPTEST_CASES` is not set.
const DEFAULT_CASES: u64 = 256;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text:?}")))
}

/// Returns the seeds of a test that tries `plans` plans by default.
pub(crate) fn seeds(plans: u64) -> std::ops::Range<u64> {
    if let Some(seed) = number("TEST_SEED") {
        return seed..seed + 1;
    }
    let plans = plans * number("PROPTEST_CASES").unwrap_or(0).max(DEFAULT_CASES) / DEFAULT_CASES;
    let first = number("TEST_FIRST_SEED").unwrap_or(0);
    // "none" unless nextest repeats the tests.
    let repetition = std::env::var("NEXTEST_STRESS_CURRENT").ok();
    let repetition: u64 = repetition.and_then(|index| index.parse().ok()).unwrap_or(0);
    let first = first + repetition * plans;
    first..first + plans
}

/// Plays one random plan for each seed. A test that passes prints its seeds, too: nextest shows them with
/// `--success-output immediate`.
async fn hold_promises(plans: u64, house: impl Fn() -> Box<dyn StoreFactory>) {
    let seeds = seeds(plans);
    println!("seeds {seeds:?}");
    for seed in seeds {
        if let Err(Violation(why)) = play(seed, house()).await {
            panic!("TEST_SEED={seed}: {why}");
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
