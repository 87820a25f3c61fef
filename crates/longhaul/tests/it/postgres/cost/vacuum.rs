//! Cost of claims while another open transaction keeps vacuum from removing dead rows: claims must
//! not scan the rows of earlier claims.

use std::time::Duration;

use longhaul::store::conformance::{StoreHarness, done, settlement};

use super::{MeasuredDatabase, TouchedBlocks};

/// Batch size; all batches together have 20,000 jobs.
const BATCH: usize = 500;
const BATCHES: usize = 40;

/// Runs jobs to completion, one batch per second, and maintains lanes as a worker does.
async fn run_through(measured: &MeasuredDatabase, bench: &StoreHarness) {
    for _ in 0..BATCHES {
        let jobs = (0..BATCH).map(|_| bench.job()).collect();
        assert!(bench.store().submit(jobs).await.iter().all(Result::is_ok));
        let leases = bench.claim(BATCH).await;
        assert_eq!(leases.len(), BATCH, "the line is as long as what was just submitted");
        let ends = leases.iter().map(|lease| settlement(lease, done())).collect();
        assert!(bench.store().settle(ends).await.iter().all(Result::is_ok));
        measured.clock.advance(Duration::from_secs(1));
        bench.store().rescue(100).await.unwrap();
    }
}

fn sum(touched: &TouchedBlocks) -> i64 {
    touched.values().sum()
}

/// Claims one job from a new database, and one after 20,000 claims without vacuum.
async fn check_cost_of_claims(analyzed: bool) {
    let measured = MeasuredDatabase::new().await;
    let claim_one = async |bench: &StoreHarness| assert_eq!(bench.claim(1).await.len(), 1);
    let bench = measured.open().await;
    bench.pending().await;
    bench.pending().await;
    drop(bench);
    let at_first = measured.touched_by(claim_one).await;

    let foreign = measured.database.connect().await;
    let pin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM longhaul.ready";
    foreign.batch_execute(pin).await.unwrap();
    let bench = measured.open().await;
    run_through(&measured, &bench).await;
    for _ in 0..10 {
        measured.clock.advance(Duration::from_secs(2));
        bench.store().rescue(100).await.unwrap();
    }
    if analyzed {
        measured.onlooker.batch_execute("ANALYZE").await.unwrap();
    }
    bench.pending().await;
    drop(bench);
    let later = measured.touched_by(claim_one).await;
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
    let measured = MeasuredDatabase::new().await;
    let touched = measured
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
    let measured = MeasuredDatabase::new().await;
    let foreign = measured.database.connect().await;
    let bench = measured.open().await;
    for _ in 0..CLAIMS {
        let jobs = (0..BATCH).map(|_| bench.job()).collect();
        assert!(bench.store().submit(jobs).await.iter().all(Result::is_ok));
        measured.clock.advance(Duration::from_millis(100));
    }
    let pin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM longhaul.ready";
    foreign.batch_execute(pin).await.unwrap();
    for _ in 0..CLAIMS {
        assert_eq!(bench.claim(BATCH).await.len(), BATCH);
    }
    drop(bench);
    measured.all_gone().await;
    let sql = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'ready_pkey'";
    let read: i64 = measured.onlooker.query_one(sql, &[]).await.unwrap().get(0);
    // Those of the jobs themselves and of the last jobs before them, twice. Reading over the jobs of all
    // earlier claims would take 200,000.
    let jobs = i64::try_from(CLAIMS * BATCH).unwrap();
    assert!(read <= 4 * jobs, "read {read} entries for {jobs} jobs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_is_committed_late_is_claimed_before_the_backlog_ends() {
    let measured = MeasuredDatabase::new().await;
    let bench = measured.open().await;
    // Sets the lane's cursor.
    bench.pending().await;
    let mut late = Vec::new();
    for _ in 0..2 {
        measured.clock.advance(Duration::from_secs(1));
        late.push(bench.now().as_millis());
        measured.clock.advance(Duration::from_secs(1));
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
        measured.onlooker.batch_execute(&sql).await.unwrap();
        job
    };
    let claim = async |count| -> Vec<_> {
        bench.claim(count).await.iter().map(|lease| lease.job.id).collect()
    };
    assert_eq!(claim(6).await.len(), 6);
    let first = commit_late(late[0]).await;
    assert!(!claim(2).await.contains(&first), "this claim continues after the last one");
    measured.clock.advance(Duration::from_millis(100));
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
