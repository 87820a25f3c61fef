//! A Postgres database for one test.

use longhaul::store::postgres::tokio_postgres;

/// A database in the Postgres cluster that `make` started, dropped with this value.
pub(crate) struct TestDatabase {
    admin: String,
    name: String,
}

fn cluster() -> String {
    std::env::var("TEST_POSTGRES_URL").expect(
        "TEST_POSTGRES_URL should be the address of a private cluster: \
         `make test-rust` starts one, or `scripts/postgres start DIR` prints its address",
    )
}

impl TestDatabase {
    pub(crate) async fn create() -> Self {
        let admin = cluster();
        let name = format!("test_{:016x}", rand::random::<u64>());
        let database = Self { admin, name };
        database.administer(&format!("CREATE DATABASE {}", database.name)).await;
        database
    }

    pub(crate) fn url(&self) -> String {
        let (cluster, _) = self.admin.rsplit_once('/').unwrap();
        format!("{cluster}/{}", self.name)
    }

    /// Returns every row of the schema `longhaul` as text.
    pub(crate) async fn dump(&self) -> String {
        let connecting = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await;
        let (client, connection) = connecting.unwrap();
        tokio::spawn(connection);
        let tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
            WHERE schemaname = 'longhaul'";
        let mut dump = String::new();
        for table in client.query(tables, &[]).await.unwrap() {
            let table: String = table.get(0);
            let rows = format!("SELECT string_agg(row::text, ' ') FROM {table} AS row");
            let row = client.query_one(&rows, &[]).await.unwrap();
            dump += &row.get::<_, Option<String>>(0).unwrap_or_default();
        }
        assert!(dump.contains("default"), "the dump is empty");
        dump
    }

    /// Returns the current file of the write-ahead log.
    pub(crate) async fn log_file() -> String {
        let (admin, connection) =
            tokio_postgres::connect(&cluster(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let name = "SELECT current_setting('data_directory') || '/pg_wal/'
            || pg_walfile_name(pg_current_wal_lsn())";
        admin.query_one(name, &[]).await.unwrap().get(0)
    }

    /// Runs a statement as the superuser of the cluster.
    pub(crate) async fn administer(&self, sql: &str) {
        let connecting = tokio_postgres::connect(&self.admin, tokio_postgres::NoTls);
        let (client, connection) = connecting.await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // On a thread of its own, because a runtime with one thread cannot block here.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(self.administer(&sql));
            });
        });
    }
}
