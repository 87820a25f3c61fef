//! Bounds on what statements wait for and delete: locked jobs, expired jobs and empty lanes.

use std::time::Duration;

use longhaul::store::conformance::{StoreHarness, done};
use longhaul::store::postgres::PostgresStore;

use super::database::TestDatabase;

/// Records how many final states each statement deletes.
const COUNT_DELETIONS: &str = "
    CREATE TABLE longhaul.deletions (jobs bigint);
    CREATE FUNCTION longhaul.count_deletions() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO longhaul.deletions SELECT count(*) FROM gone;
        RETURN NULL;
    END $$;
    CREATE TRIGGER count_deletions AFTER DELETE ON longhaul.finished
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION longhaul.count_deletions()";

async fn open() -> (TestDatabase, StoreHarness, tokio_postgres::Client) {
    let (database, clock) = (TestDatabase::create().await, StoreHarness::clock());
    let store = PostgresStore::open(&database.url(), clock.clone()).await.unwrap();
    let onlooker = database.connect().await;
    (database, StoreHarness::new(store, clock), onlooker)
}

/// Jobs with thousands of steps would otherwise be deleted by one statement that takes long and locks all of them.
#[tokio::test]
async fn statement_that_prunes_jobs_deletes_a_bounded_number_of_steps() {
    let (_database, harness, onlooker) = open().await;
    for _ in 0..5 {
        harness.ended(done()).await;
    }
    onlooker.batch_execute("UPDATE longhaul.finished SET steps = 8000").await.unwrap();
    onlooker.batch_execute(COUNT_DELETIONS).await.unwrap();
    harness.advance(Duration::from_hours(25));
    assert_eq!(harness.store().prune(500).await.unwrap(), 5);
    let sql = "SELECT array_agg(jobs) FROM longhaul.deletions WHERE jobs > 0";
    let deleted: Vec<i64> = onlooker.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(deleted, [3, 2]);
}

#[tokio::test]
async fn claim_passes_over_a_job_that_another_claim_has_locked() {
    let (database, harness, _onlooker) = open().await;
    let (locked, free) = (harness.pending().await.id, harness.pending().await.id);
    let mut foreign = database.connect().await;
    let claim = foreign.transaction().await.unwrap();
    let lock = format!("SELECT FROM longhaul.ready WHERE id = '{locked}' FOR UPDATE");
    claim.execute(&lock, &[]).await.unwrap();
    let claimed: Vec<_> = harness.claim(2).await.iter().map(|lease| lease.job.id).collect();
    assert_eq!(claimed, [free]);
    claim.rollback().await.unwrap();
    assert_eq!(harness.claim_one().await.job.id, locked);
}

#[tokio::test]
async fn empty_lanes_are_deleted_after_an_hour_and_created_again() {
    let (_database, harness, onlooker) = open().await;
    let count = async || -> i64 {
        onlooker.query_one("SELECT count(*) FROM longhaul.lanes", &[]).await.unwrap().get(0)
    };
    harness.ended(done()).await;
    for _ in 0..70 {
        assert_eq!(count().await, 1);
        harness.advance(Duration::from_mins(1));
        harness.store().rescue(10).await.unwrap();
        if count().await == 0 {
            break;
        }
    }
    assert_eq!(count().await, 0);
    let pending = harness.pending().await;
    assert_eq!((count().await, harness.claim_one().await.job.id), (1, pending.id));
    for _ in 0..70 {
        harness.advance(Duration::from_mins(1));
        harness.store().rescue(10).await.unwrap();
    }
    // The job was rescued, so its lane is not empty.
    assert_eq!((count().await, harness.claim_one().await.job.id), (1, pending.id));
}
