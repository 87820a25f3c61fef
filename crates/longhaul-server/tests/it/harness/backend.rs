//! Databases that a test server can run on.

use std::sync::Arc;

use longhaul::Clock;
use longhaul::store::Store;
use longhaul::store::accounts::Accounts;
use longhaul::store::endpoints::Endpoints;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use tempfile::TempDir;

use super::TestDatabase;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// SQLite without a file. The fastest, for tests that do not depend on the database.
    Memory,
    Sqlite,
    Postgres,
}

/// One database under the three traits that the server uses.
pub(super) struct Stores {
    pub(super) jobs: Arc<dyn Store>,
    pub(super) accounts: Arc<dyn Accounts>,
    pub(super) endpoints: Arc<dyn Endpoints>,
}

impl Stores {
    fn of<S: Store + Accounts + Endpoints + 'static>(store: S) -> Self {
        let store = Arc::new(store);
        Self { jobs: store.clone(), accounts: store.clone(), endpoints: store }
    }
}

/// Files and databases of one test server, deleted when dropped.
#[derive(Default)]
pub(super) struct Storage {
    directory: Option<TempDir>,
    database: Option<TestDatabase>,
}

impl Storage {
    pub(super) async fn open(backend: Backend, clock: &Clock) -> (Self, Stores) {
        let clock = clock.clone();
        let directory = || tempfile::tempdir().unwrap();
        match backend {
            Backend::Memory => (Self::default(), Stores::of(SqliteStore::memory(clock).unwrap())),
            Backend::Sqlite => {
                let directory = directory();
                let store = SqliteStore::open(directory.path().join("jobs.db"), clock).unwrap();
                (Self { directory: Some(directory), database: None }, Stores::of(store))
            }
            Backend::Postgres => {
                let database = TestDatabase::create().await;
                let store = PostgresStore::open(&database.url(), clock).await.unwrap();
                let storage = Self { directory: Some(directory()), database: Some(database) };
                (storage, Stores::of(store))
            }
        }
    }

    /// Opens the Postgres database once more, as another replica does.
    pub(super) async fn open_again(&self, clock: &Clock) -> Arc<dyn Store> {
        let database = self.database.as_ref().expect("replicas share a Postgres database");
        Arc::new(PostgresStore::open(&database.url(), clock.clone()).await.unwrap())
    }

    /// Returns the address of the blob store that belongs to this database.
    pub(super) fn blobs(&self) -> String {
        match &self.directory {
            Some(directory) => format!("file:{}", directory.path().join("blobs").display()),
            None => "memory:".to_owned(),
        }
    }

    /// Returns every stored byte: all files, and a dump of the Postgres database.
    pub(super) async fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        if let Some(database) = &self.database {
            all.extend(database.dump().await.into_bytes());
        }
        let mut directories: Vec<_> =
            self.directory.iter().map(|directory| directory.path().to_owned()).collect();
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else if let Ok(bytes) = std::fs::read(path) {
                    all.extend(bytes);
                }
            }
        }
        all
    }
}

/// Runs each case, a function of a [`Backend`], on SQLite and on Postgres.
macro_rules! on_both_backends {
    ($($case:ident,)*) => {
        $crate::harness::on_both_backends! { @in sqlite Sqlite: $($case,)* }
        $crate::harness::on_both_backends! { @in postgres Postgres: $($case,)* }
    };
    (@in $module:ident $backend:ident: $($case:ident,)*) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case($crate::harness::Backend::$backend).await;
            })*
        }
    };
}
pub(crate) use on_both_backends;
