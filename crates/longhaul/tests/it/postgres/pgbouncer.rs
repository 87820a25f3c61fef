//! `PgBouncer` in transaction mode: no session state lasts from one transaction to the next.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::{PostgresStore, inspect};
use longhaul::{Clock, Ctx, Engine, JobError};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::SimpleQueryMessage;

use super::database::{TestDatabase, connect, open_now};
use super::wait::until;

/// User id of Debian's `nobody`, because `PgBouncer` does not run as root.
const NOBODY: u32 = 65534;

/// A `PgBouncer` in front of one server. Killed when dropped.
pub(crate) struct Bouncer {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Bouncer {
    /// Starts `PgBouncer` with this number of server sessions.
    pub(crate) async fn before(url: &str, sessions: usize) -> Self {
        let (host, port) =
            url.split_once('@').unwrap().1.split_once('/').unwrap().0.split_once(':').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own_port = listener.local_addr().unwrap().port();
        drop(listener);
        let folder = tempfile::tempdir().unwrap();
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), everybody).unwrap();
        let settings = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={host} port={port} user=longhaul\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own_port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\ndefault_pool_size = {sessions}\n\
             max_client_conn = 200\nlogfile = {}/log\n",
            folder.path().display()
        );
        std::fs::write(&settings, text).unwrap();
        let mut command = Command::new("/usr/sbin/pgbouncer");
        command.arg("-q").arg(&settings);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let child = command.spawn().expect("scripts/setup-test installs pgbouncer");
        let bouncer = Self { child, port: own_port, _folder: folder };
        until("pgbouncer to listen", async || {
            TcpStream::connect(("127.0.0.1", own_port)).await.ok()
        })
        .await;
        bouncer
    }

    /// Returns the URL of the same database through the pooler.
    pub(crate) fn url(&self, url: &str) -> String {
        let (_, name) = url.rsplit_once('/').unwrap();
        format!("postgres://longhaul@127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

/// Opens a store behind a pooler, on a new database.
pub(crate) async fn pgbouncer_harness() -> StoreHarness {
    let database = TestDatabase::create().await;
    let bouncer = Bouncer::before(&database.url(), 3).await;
    let (clock, url) = (StoreHarness::clock(), bouncer.url(&database.url()));
    let store = PostgresStore::open(&url, clock.clone()).await.unwrap();
    StoreHarness::new(store, clock)
        .keeping(bouncer)
        .keeping(database)
        .reopened_by(move |clock| open_now(&url, clock))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooler_is_detected_and_no_statement_is_prepared() {
    let database = TestDatabase::create().await;
    assert!(!inspect(&database.url()).await.unwrap().summary.contains("behind a pooler"));
    // All clients share one session, so every prepared statement would be found there.
    let bouncer = Bouncer::before(&database.url(), 1).await;
    let url = bouncer.url(&database.url());
    let found = inspect(&url).await.unwrap().summary;
    assert!(found.contains("behind a pooler"), "{found}");

    let clock = StoreHarness::clock();
    let bench = StoreHarness::new(PostgresStore::open(&url, clock.clone()).await.unwrap(), clock);
    let lease = bench.running().await;
    bench.step(&lease, 0, "extract", "12").await.unwrap();
    bench.phase(&lease, "parsing").await.unwrap();
    bench.settle(&lease, longhaul::store::conformance::done()).await.unwrap();
    bench.record(lease.job.id).await;

    let onlooker = connect(&url).await;
    let answer = onlooker.simple_query("SELECT count(*) FROM pg_prepared_statements").await;
    let prepared = answer.unwrap().iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        row.get(0).map(ToOwned::to_owned)
    });
    assert_eq!(prepared.as_deref(), Some("0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_of_another_process_is_found_by_polling_behind_a_pooler() {
    let database = TestDatabase::create().await;
    let bouncer = Bouncer::before(&database.url(), 3).await;
    let url = bouncer.url(&database.url());
    let echo = |_ctx: Ctx, text: String| async move { Ok::<_, JobError>(text) };
    let start = async |name: &str, concurrency: usize| {
        Engine::builder()
            .postgres(&url)
            .clock(Clock::system())
            .replica(name)
            .concurrency(concurrency)
            .kind("echo", echo)
            .start()
            .await
            .unwrap()
    };
    let worker = start("worker", 2).await;
    let api = start("api", 0).await;
    let job = api.submit_raw("echo", "hello").await.unwrap();
    assert_eq!(job.result_as::<String>().await.unwrap(), "hello");
    let record = job.record().await.unwrap();
    let held_by: Vec<_> =
        record.history.iter().filter_map(|event| event.replica.as_deref()).collect();
    assert!(held_by.iter().all(|replica| *replica == "worker"), "{held_by:?}");
    worker.stop().await;
    api.stop().await;
}
