//! Cost of claims while another open transaction keeps vacuum from removing dead rows: claims must
//! not scan the rows of earlier claims.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::Clock;
use longhaul::store::conformance::{StoreHarness, done, settlement};
use longhaul::store::postgres::PostgresStore;

use super::database::TestDatabase;
use super::wait::until;

/// Batch size; all batches together have 20,000 jobs.
const BATCH: usize = 500;
const BATCHES: usize = 40;

/// Disables autovacuum for all tables. The counts of touched blocks include its own: between two of them it
/// would add whole tables.
const NO_AUTOVACUUM: &str = "
    DO $$
    DECLARE name regclass;
    BEGIN
        FOR name IN
            SELECT oid FROM pg_class WHERE relnamespace = 'longhaul'::regnamespace AND relkind = 'r'
        LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name);
        END LOOP;
    END $$";

/// Number of blocks touched so far, by table.
type TouchedBlocks = BTreeMap<String, i64>;

struct PinnedDatabase {
    database: TestDatabase,
    onlooker: tokio_postgres::Client,
    clock: Clock,
}

impl PinnedDatabase {
    async fn new() -> Self {
        let database = TestDatabase::create().await;
        let onlooker = database.connect().await;
        let pinned = Self { database, onlooker, clock: StoreHarness::clock() };
        drop(pinned.open().await);
        pinned.onlooker.batch_execute(NO_AUTOVACUUM).await.unwrap();
        pinned
    }

    /// Opens a new store on the database.
    async fn open(&self) -> StoreHarness {
        // Each harness derives its ids from the time of its creation.
        self.clock.advance(Duration::from_secs(1));
        let store = PostgresStore::open(&self.database.url(), self.clock.clone()).await.unwrap();
        StoreHarness::new(store, self.clock.clone())
    }

    /// Runs `work` on a new store and returns the blocks that it touched. Postgres sessions report
    /// their counts when they end, so the store serves only this call.
    async fn touched_by(&self, work: impl AsyncFnOnce(&StoreHarness)) -> TouchedBlocks {
        self.all_gone().await;
        let before = self.touched().await;
        let bench = self.open().await;
        work(&bench).await;
        drop(bench);
        self.all_gone().await;
        let mut after = self.touched().await;
        for (table, blocks) in &mut after {
            *blocks -= before.get(table).copied().unwrap_or_default();
        }
        after
    }

    async fn touched(&self) -> TouchedBlocks {
        let sql = "SELECT relname::text, (coalesce(heap_blks_read, 0) + coalesce(heap_blks_hit, 0)
                + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0))::bigint
            FROM pg_statio_user_tables WHERE schemaname = 'longhaul'";
        let rows = self.onlooker.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    async fn all_gone(&self) {
        until("the store's connections to end", async || {
            let sql = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'longhaul'";
            let left: i64 = self.onlooker.query_one(sql, &[]).await.unwrap().get(0);
            (left == 0).then_some(())
        })
        .await;
    }

    /// Runs jobs to completion, one batch per second, and maintains lanes as a worker does.
    async fn run_through(&self, bench: &StoreHarness) {
        for _ in 0..BATCHES {
            let jobs = (0..BATCH).map(|_| bench.job()).collect();
            assert!(bench.store().submit(jobs).await.iter().all(Result::is_ok));
            let leases = bench.claim(BATCH).await;
            assert_eq!(leases.len(), BATCH, "the line is as long as what was just submitted");
            let ends = leases.iter().map(|lease| settlement(lease, done())).collect();
            assert!(bench.store().settle(ends).await.iter().all(Result::is_ok));
            self.clock.advance(Duration::from_secs(1));
            bench.store().rescue(100).await.unwrap();
        }
    }
}

fn sum(touched: &TouchedBlocks) -> i64 {
    touched.values().sum()
}

/// Claims one job from a new database, and one after 20,000 claims without vacuum.
async fn check_cost_of_claims(analyzed: bool) {
    let pinned = PinnedDatabase::new().await;
    let claim_one = async |bench: &StoreHarness| assert_eq!(bench.claim(1).await.len(), 1);
    let bench = pinned.open().await;
    bench.pending().await;
    bench.pending().await;
    drop(bench);
    let at_first = pinned.touched_by(claim_one).await;

    let foreign = pinned.database.connect().await;
    let pin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM longhaul.ready";
    foreign.batch_execute(pin).await.unwrap();
    let bench = pinned.open().await;
    pinned.run_through(&bench).await;
    for _ in 0..10 {
        pinned.clock.advance(Duration::from_secs(2));
        bench.store().rescue(100).await.unwrap();
    }
    if analyzed {
        pinned.onlooker.batch_execute("ANALYZE").await.unwrap();
    }
    bench.pending().await;
    drop(bench);
    let later = pinned.touched_by(claim_one).await;
    foreign.batch_execute("COMMIT").await.unwrap();

    // A tree of 20,000 entries is one or two levels higher, and each table's free space map is read.
    assert!(sum(&later) <= 2 * sum(&at_first) + 40, "at first {at_first:?}, later {later:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_do_not_scan_dead_rows_while_vacuum_is_blocked() {
    check_cost_of_claims(false).await;
}

/// As after an autoanalyze, which can run at any time: statistics report thousands of pages and few live rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_do_not_scan_dead_rows_after_an_analyze() {
    check_cost_of_claims(true).await;
}

/// The table has no statistics yet, and the first claim was planned while it was empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_without_table_statistics_reads_only_the_claimed_jobs() {
    const TAKEN: usize = 200;
    let pinned = PinnedDatabase::new().await;
    let touched = pinned
        .touched_by(async |bench: &StoreHarness| {
            bench.pending().await;
            assert_eq!(bench.claim(1).await.len(), 1);
            for _ in 0..8 {
                let jobs = (0..BATCH).map(|_| bench.job()).collect();
                assert!(bench.store().submit(jobs).await.iter().all(Result::is_ok));
            }
            assert_eq!(bench.claim(TAKEN).await.len(), TAKEN);
        })
        .await;
    // About ten blocks per submitted job; reading all jobs for each claimed one would touch a million.
    assert!(touched["jobs"] < 100_000, "{touched:?}");
}

/// Lane cursors do not advance over jobs that became due in the last seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_a_young_backlog_continue_after_each_other() {
    const CLAIMS: usize = 20;
    let pinned = PinnedDatabase::new().await;
    let foreign = pinned.database.connect().await;
    let bench = pinned.open().await;
    for _ in 0..CLAIMS {
        let jobs = (0..BATCH).map(|_| bench.job()).collect();
        assert!(bench.store().submit(jobs).await.iter().all(Result::is_ok));
        pinned.clock.advance(Duration::from_millis(100));
    }
    let pin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM longhaul.ready";
    foreign.batch_execute(pin).await.unwrap();
    for _ in 0..CLAIMS {
        assert_eq!(bench.claim(BATCH).await.len(), BATCH);
    }
    drop(bench);
    pinned.all_gone().await;
    let sql = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'ready_pkey'";
    let read: i64 = pinned.onlooker.query_one(sql, &[]).await.unwrap().get(0);
    // Those of the jobs themselves and of the last jobs before them, twice. Reading over the jobs of all
    // earlier claims would take 200,000.
    let jobs = i64::try_from(CLAIMS * BATCH).unwrap();
    assert!(read <= 4 * jobs, "read {read} entries for {jobs} jobs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_is_committed_late_is_claimed_before_the_backlog_ends() {
    let pinned = PinnedDatabase::new().await;
    let bench = pinned.open().await;
    // Sets the lane's cursor.
    bench.pending().await;
    let mut late = Vec::new();
    for _ in 0..2 {
        pinned.clock.advance(Duration::from_secs(1));
        late.push(bench.now().as_millis());
        pinned.clock.advance(Duration::from_secs(1));
        assert!(
            bench
                .store()
                .submit((0..10).map(|_| bench.job()).collect())
                .await
                .iter()
                .all(Result::is_ok)
        );
    }
    // Commits a job that became due before the claimed ones.
    let commit_late = async |run_at: i64| {
        let job = bench.pending().await.id;
        let set = format!("SET run_at = {run_at} WHERE id = '{job}'");
        let sql = format!("UPDATE longhaul.ready {set}; UPDATE longhaul.jobs {set}");
        pinned.onlooker.batch_execute(&sql).await.unwrap();
        job
    };
    let claim = async |count| -> Vec<_> {
        bench.claim(count).await.iter().map(|lease| lease.job.id).collect()
    };
    assert_eq!(claim(6).await.len(), 6);
    let first = commit_late(late[0]).await;
    assert!(!claim(2).await.contains(&first), "this claim continues after the last one");
    pinned.clock.advance(Duration::from_millis(100));
    assert_eq!(claim(1).await, [first]);
    assert_eq!(claim(5).await.len(), 5);
    let second = commit_late(late[0]).await;
    let rest = claim(20).await;
    assert!(
        rest.contains(&second),
        "a claim that found too few jobs has read the lane from its cursor"
    );
    assert_eq!(rest.len(), 9);
}
