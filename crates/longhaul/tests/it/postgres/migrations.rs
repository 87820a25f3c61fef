//! Schema migrations: applied once by the first process, and never by a role without the rights.

use longhaul::Clock;
use longhaul::store::ReplicaStore as _;
use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::{OpenError, PostgresStore};
use tokio::task::JoinSet;

use super::database::TestDatabase;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_concurrent_starts_migrate_the_schema_once() {
    let database = TestDatabase::create().await;
    let mut opening = JoinSet::new();
    for _ in 0..10 {
        let url = format!("{}?pool_max=2", database.url());
        opening.spawn(async move { PostgresStore::open(&url, Clock::system()).await });
    }
    let stores = opening.join_all().await;
    for store in &stores {
        let store = store.as_ref().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(store.replicas().await.unwrap(), []);
    }
    let client = database.connect().await;
    let sql = "SELECT version FROM longhaul.migrations ORDER BY version";
    let versions: Vec<i32> =
        client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let expected: Vec<i32> = (1..).take(versions.len()).collect();
    assert!(!versions.is_empty() && versions == expected, "{versions:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_of_a_newer_version_is_rejected_and_unchanged() {
    let database = TestDatabase::create().await;
    drop(PostgresStore::open(&database.url(), Clock::system()).await.unwrap());
    let client = database.connect().await;
    let from_the_future = "INSERT INTO longhaul.migrations (version) VALUES (4711)";
    client.batch_execute(from_the_future).await.unwrap();
    let refused = PostgresStore::open(&database.url(), Clock::system()).await;
    let Err(error) = refused else { panic!("a schema from the future was opened") };
    assert!(matches!(error, OpenError::TooNew { found: 4711, .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("newer version") && message.contains("4711"), "{message}");
    let sql = "SELECT max(version) FROM longhaul.migrations";
    assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i32>(0), 4711);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn role_without_create_rights_opens_a_migrated_schema() {
    let database = TestDatabase::create().await;
    let role = format!("plain_{:016x}", rand::random::<u64>());
    let plain = database.url().replace("longhaul@", &format!("{role}@"));
    database.administer(&format!("CREATE ROLE {role} LOGIN")).await;
    let not_yet = PostgresStore::open(&plain, Clock::system()).await;
    assert!(matches!(not_yet, Err(OpenError::Migration(_))), "there is no schema to use");

    drop(PostgresStore::open(&database.url(), Clock::system()).await.unwrap());
    let grant = format!(
        "GRANT USAGE ON SCHEMA longhaul TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA longhaul TO {role}"
    );
    database.connect().await.batch_execute(&grant).await.unwrap();
    let clock = StoreHarness::clock();
    let store = PostgresStore::open(&plain, clock.clone()).await.unwrap();
    let bench = StoreHarness::new(store, clock);
    let lease = bench.running().await;
    bench.step(&lease, 0, "extract", "12").await.unwrap();
    bench.settle(&lease, longhaul::store::conformance::done()).await.unwrap();

    drop(bench);
    let revoke = format!("DROP OWNED BY {role}");
    database.connect().await.batch_execute(&revoke).await.unwrap();
    database.administer(&format!("DROP ROLE {role}")).await;
}
