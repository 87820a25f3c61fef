//! A pooler in between that hands out sessions by transaction: nothing lasts from one to the next.

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

/// Debian's user that owns nothing: a pooler refuses to run as root.
const NOBODY: u32 = 65534;

/// A pgbouncer before one server. Killed when this is dropped.
pub(crate) struct Bouncer {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Bouncer {
    /// Starts one that has so many sessions to hand out.
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

    /// The same database, through here.
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

/// A store behind a pooler, on a database of its own.
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
async fn pooler_is_noticed_by_itself_and_nothing_is_prepared() {
    let database = TestDatabase::create().await;
    assert!(!inspect(&database.url()).await.unwrap().summary.contains("behind a pooler"));
    // One session for everybody: whatever is prepared is prepared there.
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
async fn jobs_of_others_are_found_behind_a_pooler_without_hints() {
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
