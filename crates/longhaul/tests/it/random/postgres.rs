//! The Postgres store, whose database outlives its processes.

use std::sync::Arc;

use longhaul::clock::Clock;
use longhaul::store::Store;
use longhaul::store::sqlite::SqliteStore;
use tokio::runtime::Handle;

use super::differential_store::DifferentialStore;
use super::hold_promises;
use super::simulation::StoreFactory;
use crate::postgres::{AlternatingStore, TestDatabase, open_now};

/// Number of plans of each test. Each takes about a second.
const PLANS: u64 = 4;

/// A database and the processes that use it.
struct InPostgres {
    database: TestDatabase,
    open: fn(&str, &Clock) -> Arc<dyn Store>,
    /// Processes that count as dead but still hold connections and stale state.
    left: Vec<Arc<dyn Store>>,
}

impl InPostgres {
    fn new(open: fn(&str, &Clock) -> Arc<dyn Store>) -> Self {
        let creating = TestDatabase::create();
        let database = tokio::task::block_in_place(|| Handle::current().block_on(creating));
        Self { database, open, left: Vec::new() }
    }
}

impl StoreFactory for InPostgres {
    fn open(&mut self, clock: &Clock) -> Arc<dyn Store> {
        (self.open)(&self.database.url(), clock)
    }

    fn restart(&mut self, store: Arc<dyn Store>, clock: &Clock, kill: bool) -> Arc<dyn Store> {
        if kill {
            self.left.push(store);
        }
        self.open(clock)
    }

    fn find_orphans(&mut self) -> Result<(), String> {
        let looking = async {
            let client = self.database.connect().await;
            // Ids of deleted jobs are kept on purpose, and so are rows without a job.
            for table in ["jobs", "ready", "leases", "shared_leases", "steps"] {
                let count = format!("SELECT count(*) FROM longhaul.{table}");
                let rows: i64 = client.query_one(&count, &[]).await.unwrap().get(0);
                if rows > 0 {
                    return Err(format!("{rows} rows are left in {table}"));
                }
            }
            Ok(())
        };
        tokio::task::block_in_place(|| Handle::current().block_on(looking))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_plans_keep_invariants_in_postgres() {
    let open = |url: &str, clock: &Clock| Arc::new(open_now(url, clock.clone())) as Arc<dyn Store>;
    hold_promises(PLANS, || Box::new(InPostgres::new(open))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_plans_keep_invariants_in_postgres_with_shared_leases() {
    let open = |url: &str, clock: &Clock| {
        Arc::new(open_now(url, clock.clone()).always_sharing_leases()) as Arc<dyn Store>
    };
    hold_promises(PLANS, || Box::new(InPostgres::new(open))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_plans_keep_invariants_in_alternating_postgres_stores() {
    let open = |url: &str, clock: &Clock| {
        Arc::new(AlternatingStore::open_now(url, clock)) as Arc<dyn Store>
    };
    hold_promises(PLANS, || Box::new(InPostgres::new(open))).await;
}

/// SQLite and Postgres side by side: each call goes to both, and the results must be equal.
struct InBoth(TestDatabase);

impl StoreFactory for InBoth {
    fn open(&mut self, clock: &Clock) -> Arc<dyn Store> {
        let sqlite = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
        let postgres = Arc::new(open_now(&self.0.url(), clock.clone()));
        Arc::new(DifferentialStore { one: sqlite, other: postgres })
    }

    fn sweeps_all(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_and_postgres_return_equal_results_for_random_plans() {
    hold_promises(PLANS, || {
        let creating = TestDatabase::create();
        Box::new(InBoth(tokio::task::block_in_place(|| Handle::current().block_on(creating))))
    })
    .await;
}
