//! Failover from a primary to its synchronous standby.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul::job::TenantId;
use longhaul::store::JobStore as _;
use longhaul::store::StoreError;
use longhaul::store::conformance::StoreHarness;
use longhaul::store::postgres::{PostgresStore, inspect};
use tokio::sync::mpsc;

use super::cluster::Cluster;
use super::database::connect;
use super::wait::until;

const ACKNOWLEDGED: usize = 30;

/// Starts a standby that every commit on the primary waits for.
async fn standby_of(primary: &Cluster) -> Cluster {
    let mut standby = Cluster::in_folder();
    let (home, data) = (standby.home(), format!("{}/data", standby.home()));
    Cluster::program(&["mkdir", &home]);
    let from = primary.url();
    Cluster::program(&[
        "pg_basebackup",
        "-D",
        &data,
        "-R",
        "-X",
        "stream",
        "-c",
        "fast",
        "-d",
        from,
    ]);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut settings =
        OpenOptions::new().append(true).open(format!("{data}/postgresql.conf")).unwrap();
    writeln!(settings, "port = {port}").unwrap();
    standby.start_again(&[]);
    let admin = connect(primary.url()).await;
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    until("the standby to be waited for", async || {
        let sql = "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'";
        (!admin.query(sql, &[]).await.unwrap().is_empty()).then_some(())
    })
    .await;
    standby
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asynchronous_standby_is_reported() {
    let primary = Cluster::start(&["shared_buffers=32MB"]);
    let _standby = standby_of(&primary).await;
    let reported = async || inspect(primary.url()).await.unwrap().asynchronous_standbys;
    assert_eq!(reported().await, 0, "each commit waits for the standby");
    let admin = connect(primary.url()).await;
    admin.batch_execute("ALTER SYSTEM RESET synchronous_standby_names").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    until("the new setting", async || (reported().await == 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_to_a_standby_loses_no_acknowledged_job() {
    let primary = Cluster::start(&["shared_buffers=32MB"]);
    let standby = standby_of(&primary).await;
    let url = format!(
        "postgres://longhaul@{},{}/postgres?target_session_attrs=read-write",
        primary.host(),
        standby.host()
    );
    let clock = StoreHarness::clock();
    let store = PostgresStore::open(&url, clock.clone()).await.unwrap();
    let bench = Arc::new(StoreHarness::new(store, clock));
    let enough = Arc::new(AtomicBool::new(false));
    let (acknowledged, mut acknowledgements) = mpsc::unbounded_channel();
    let client = tokio::spawn({
        let (bench, enough) = (Arc::clone(&bench), Arc::clone(&enough));
        async move {
            let mut ids = Vec::new();
            while !enough.load(Ordering::SeqCst) {
                match bench.submit(bench.job()).await {
                    Ok(submitted) => {
                        ids.push(submitted.record.job.id);
                        acknowledged.send(()).unwrap();
                    }
                    Err(StoreError::Unavailable(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            ids
        }
    });
    for _ in 0..ACKNOWLEDGED {
        acknowledgements.recv().await.unwrap();
    }
    tokio::task::block_in_place(|| primary.crash());
    while acknowledgements.try_recv().is_ok() {}
    let data = format!("{}/data", standby.home());
    tokio::task::block_in_place(|| {
        Cluster::program(&["pg_ctl", "promote", "-w", "-s", "-D", &data]);
    });
    // The same store finds the new primary without a restart.
    for _ in 0..ACKNOWLEDGED {
        acknowledgements.recv().await.unwrap();
    }
    enough.store(true, Ordering::SeqCst);
    let ids = client.await.unwrap();
    let onlooker = PostgresStore::open(standby.url(), StoreHarness::clock()).await.unwrap();
    for id in &ids {
        let record = onlooker.job(&TenantId::default(), *id).await;
        assert!(record.is_ok(), "{id} was acknowledged: {record:?}");
    }
    assert_eq!(bench.claim(ids.len()).await.len(), ids.len());
}
