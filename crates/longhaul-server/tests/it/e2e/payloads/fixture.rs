//! A server with all of its storage, and the search of each part for the payload.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::TryStreamExt;
use longhaul::blob::{BlobPath, Blobs, CloudOptions, Keyring};
use longhaul::failpoint::Failpoint;
use longhaul::{Clock, Engine, Timestamp};

use super::canary::{Canary, files_in};
use super::servers;
use crate::harness::TestDatabase;
use crate::harness::{ExitedProcess, Installation, TestProcess, skip};

/// Returns a configuration with the kind `keep`, which runs `script` with a payload. Retries start at once, and
/// leases are short enough to wait for.
pub(super) fn config(script: &str) -> String {
    format!(
        "[kinds.keep]\ncommand = [\"sh\", \"-c\", \"{script}\"]\npayload = true\nretry_first = \"0s\"\n\
         [lease]\nduration = \"2s\"\nrenew = \"500ms\"\nsweep = \"100ms\"\n"
    )
}

/// Database, blob store and canary that the cases of a test share.
pub(super) struct TestStorage {
    pub(super) canary: Canary,
    on_postgres: bool,
    /// The first file of Postgres' write-ahead log that may hold what the test does.
    log_since: Option<PathBuf>,
    /// None: blobs are files in the data folder.
    cloud: Option<servers::Server>,
}

impl TestStorage {
    pub(super) async fn new(on_postgres: bool, in_cloud: bool) -> Self {
        let log_since =
            if on_postgres { Some(TestDatabase::log_file().await.into()) } else { None };
        let cloud = if in_cloud { Some(servers::Server::azure().await) } else { None };
        Self { canary: Canary::new(), on_postgres, log_since, cloud }
    }

    /// A payload that is sent to the blob store as a whole, or one that is sent in parts, so that there are
    /// unfinished blobs.
    pub(super) fn payload(&self, in_parts: bool) -> Vec<u8> {
        self.canary.payload(match (&self.cloud, in_parts) {
            (Some(_), true) => 8_500_000,
            (None, true) => 1_500_000,
            (_, false) => 300_000,
        })
    }

    /// Searches the files that all cases share: those of Postgres and of the cloud.
    pub(super) async fn assert_clean(&self) {
        if let Some(cloud) = &self.cloud {
            assert_eq!(self.canary.found_in(cloud.folder()), Vec::<PathBuf>::new());
        }
        let Some(since) = &self.log_since else { return };
        // All table contents were in the write-ahead log before.
        let now = PathBuf::from(TestDatabase::log_file().await);
        let Ok(listed) = fs::read_dir(since.parent().unwrap()) else {
            return skip("the files of Postgres belong to another user");
        };
        let mut log: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
        log.retain(|path| (since..=&now).contains(&path));
        assert!(!log.is_empty());
        log.retain(|path| self.canary.is_in(&fs::read(path).unwrap()));
        assert_eq!(log, Vec::<PathBuf>::new());
    }
}

/// One server with its storage.
pub(super) struct Case<'a> {
    storage: &'a TestStorage,
    pub(super) install: Installation,
    database: Option<TestDatabase>,
    /// The address of its blobs.
    blobs: String,
}

impl<'a> Case<'a> {
    pub(super) async fn new(storage: &'a TestStorage, config: &str) -> Self {
        let install = Installation::with(config);
        fs::create_dir(install.path().join("tmp")).unwrap();
        let blobs = match &storage.cloud {
            Some(cloud) => cloud.azure_address(&format!("box/{:016x}", rand::random::<u64>())),
            None => format!("file:{}", install.data_dir().join("blobs").display()),
        };
        let database = if storage.on_postgres { Some(TestDatabase::create().await) } else { None };
        Self { storage, install, database, blobs }
    }

    /// Starts a server that waits at a failpoint.
    pub(super) async fn start(&self, point: Option<Failpoint>) -> TestProcess {
        for _ in 0..100 {
            let mut serve = self.install.serve();
            serve
                .env("HOME", self.install.path())
                .env("TMPDIR", self.install.path().join("tmp"))
                .env("LONGHAUL_LOG", "debug")
                .env("LONGHAUL_BLOBS", &self.blobs)
                .env(servers::ACCOUNT_KEY_VARIABLE, servers::ACCOUNT_KEY);
            if let Some(database) = &self.database {
                serve.args(["--database", &database.url()]);
            }
            if let Some(point) = point {
                serve.env("TEST_FAILPOINT", format!("{point:?}"));
            }
            // The port and the lock of a killed server may be in use for some milliseconds.
            if let Ok(server) = self.install.ready_or_exited(TestProcess::spawn(serve)).await {
                return server;
            }
        }
        panic!("the server does not start");
    }

    /// Returns the directory that may contain decrypted payloads while their jobs run.
    pub(super) fn work(&self) -> PathBuf {
        self.install.data_dir().join("work")
    }

    /// Every file that holds the canary: of the data, the database and its log, temporary ones.
    pub(super) fn found(&self) -> Vec<PathBuf> {
        self.storage.canary.found_in(self.install.path())
    }

    /// Asserts that the payload is in no file and in no table.
    pub(super) async fn assert_clean(&self) {
        assert_eq!(self.found(), Vec::<PathBuf>::new());
        if let Some(database) = &self.database {
            assert!(
                !self.storage.canary.is_in(database.dump().await.as_bytes()),
                "in the database"
            );
        }
    }

    pub(super) fn assert_silent(&self, exited: &ExitedProcess) {
        assert!(!self.storage.canary.is_in(exited.stderr.as_bytes()), "in the log");
        assert!(!self.storage.canary.is_in(exited.stdout.as_bytes()), "on stdout");
    }

    /// Returns the finished and visible unfinished blobs of the blob store.
    pub(super) async fn stored(&self) -> Vec<String> {
        if let Some(folder) = self.blobs.strip_prefix("file:") {
            let files = files_in(folder.as_ref());
            let mut names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
            // The marks of the server's keys are no blob.
            names.retain(|name| !name.ends_with("/_server-keys"));
            return names;
        }
        let listed: Vec<(BlobPath, _)> = self.open_blobs().list().try_collect().await.unwrap();
        listed.iter().map(|(path, _)| path.to_string()).collect()
    }

    fn open_blobs(&self) -> Blobs {
        let key = (servers::ACCOUNT_KEY_VARIABLE.to_owned(), servers::ACCOUNT_KEY.to_owned());
        let options = CloudOptions { variables: Some([key].into()), ..CloudOptions::default() };
        Blobs::open_with(&self.blobs, &options).unwrap()
    }

    /// Runs a replica with a manual clock until it has deleted all orphan blobs. No server may run meanwhile.
    pub(super) async fn sweep(&self) {
        let since_1970 = std::time::UNIX_EPOCH.elapsed().unwrap();
        let clock = Clock::manual(Timestamp::from_millis(0).after(since_1970));
        let builder = Engine::builder().clock(clock.clone()).concurrency(0);
        let builder = builder.blobs(self.open_blobs(), Keyring::generate());
        let builder = match &self.database {
            Some(database) => builder.postgres(database.url()),
            None => builder.sqlite(self.install.database()),
        };
        let engine = builder.start().await.unwrap();
        while !self.stored().await.is_empty() {
            clock.advance(Duration::from_mins(1));
            tokio::task::yield_now().await;
        }
        engine.stop().await;
    }
}
