//! A database for one test.

use longhaul::Clock;
use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::PostgresStore;
use tokio::runtime::{Handle, Runtime};

/// A database in the cluster that `make` started. Removed when dropped.
pub(crate) struct TestDatabase {
    admin: String,
    name: String,
}

impl TestDatabase {
    pub(crate) async fn create() -> Self {
        let admin = std::env::var("TEST_POSTGRES_URL").expect(
            "TEST_POSTGRES_URL should be the address of a private cluster: \
             `make test-rust` starts one, or `scripts/postgres start DIR` prints its address",
        );
        Self::create_in(&admin).await
    }

    /// Creates a database in another cluster.
    pub(crate) async fn create_in(admin: &str) -> Self {
        let name = format!("test_{:016x}", rand::random::<u64>());
        let database = Self { admin: admin.to_owned(), name };
        database.administer(&format!("CREATE DATABASE {}", database.name)).await;
        database
    }

    pub(crate) fn url(&self) -> String {
        let (cluster, _) = self.admin.rsplit_once('/').unwrap();
        format!("{cluster}/{}", self.name)
    }

    /// Copies the database, like a backup that is restored beside it. Closes all connections.
    pub(crate) async fn copy(&self) -> Self {
        let name = format!("test_{:016x}", rand::random::<u64>());
        let close = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        );
        self.administer(&close).await;
        let copy = Self { admin: self.admin.clone(), name };
        copy.administer(&format!("CREATE DATABASE {} TEMPLATE {}", copy.name, self.name)).await;
        copy
    }

    /// Opens a connection that the store does not use.
    pub(crate) async fn connect(&self) -> tokio_postgres::Client {
        connect(&self.url()).await
    }

    /// Runs a statement as the cluster's administrator.
    pub(crate) async fn administer(&self, sql: &str) {
        connect(&self.admin).await.batch_execute(sql).await.unwrap();
    }
}

/// Opens a connection that only the test uses.
pub(crate) async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let drop_it = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // On a separate thread, because the test's runtime may have none to spare.
        let dropping = || Runtime::new().unwrap().block_on(self.administer(&drop_it));
        std::thread::scope(|scope| scope.spawn(dropping).join()).unwrap();
    }
}

/// Opens a store on a new database.
pub(crate) async fn harness() -> StoreHarness {
    let database = TestDatabase::create().await;
    let (clock, url) = (StoreHarness::clock(), database.url());
    let store = PostgresStore::open(&url, clock.clone()).await.unwrap();
    StoreHarness::new(store, clock)
        .keeping(database)
        .reopened_by(move |clock| open_now(&url, clock))
}

/// Opens a store on a new database that shares the lease of every job that can share one.
pub(crate) async fn sharing_harness() -> StoreHarness {
    let database = TestDatabase::create().await;
    let (clock, url) = (StoreHarness::clock(), database.url());
    let store = PostgresStore::open(&url, clock.clone()).await.unwrap().always_sharing_leases();
    StoreHarness::new(store, clock)
        .keeping(database)
        .reopened_by(move |clock| open_now(&url, clock).always_sharing_leases())
}

/// Opens a store from synchronous code.
pub(crate) fn open_now(url: &str, clock: Clock) -> PostgresStore {
    let opening = PostgresStore::open(url, clock);
    tokio::task::block_in_place(|| Handle::current().block_on(opening)).unwrap()
}
