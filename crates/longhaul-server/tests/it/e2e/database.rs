//! A Postgres database for one test.

use longhaul::store::postgres::tokio_postgres;

/// A database of its own in the cluster that `make` started, gone when this is dropped.
pub(crate) struct Database {
    admin: String,
    name: String,
}

impl Database {
    pub(crate) async fn create() -> Self {
        let admin = std::env::var("TEST_POSTGRES_URL").expect(
            "TEST_POSTGRES_URL should be the address of a private cluster: \
             `make test-rust` starts one, or `scripts/postgres start DIR` prints its address",
        );
        let name = format!("test_{:016x}", rand::random::<u64>());
        let database = Self { admin, name };
        database.administer(&format!("CREATE DATABASE {}", database.name)).await;
        database
    }

    pub(crate) fn url(&self) -> String {
        let (cluster, _) = self.admin.rsplit_once('/').unwrap();
        format!("{cluster}/{}", self.name)
    }

    /// All that is in our schema, as text.
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
        assert!(dump.contains("default"), "there is something to look at");
        dump
    }

    async fn administer(&self, sql: &str) {
        let connecting = tokio_postgres::connect(&self.admin, tokio_postgres::NoTls);
        let (client, connection) = connecting.await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop_it = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let dropping = self.administer(&drop_it);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(dropping));
    }
}
