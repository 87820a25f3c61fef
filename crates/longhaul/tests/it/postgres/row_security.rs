//! Row-level security, whose role belongs to the whole cluster and needs rights that not every user has.

use std::time::Duration;

use longhaul::Clock;
use longhaul::store::conformance::{StoreHarness, done};
use longhaul::store::postgres::{PostgresStore, RowSecurity, inspect};
use longhaul::store::{Filter, PageRequest};
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::database::connect;

const CHEAP: [&str; 2] = ["fsync=off", "full_page_writes=off"];

/// Starts a cluster without the tenant role, with one user and databases that the user owns.
async fn cluster_of(user: &str, rights: &str, databases: usize) -> (Cluster, Vec<String>) {
    let cluster = Cluster::start(&CHEAP);
    let admin = connect(cluster.url()).await;
    admin.batch_execute(&format!("CREATE ROLE {user} LOGIN {rights}")).await.unwrap();
    let mut urls = Vec::new();
    for number in 0..databases {
        let create = format!("CREATE DATABASE own_{number} OWNER {user}");
        admin.batch_execute(&create).await.unwrap();
        urls.push(format!("postgres://{user}@{}/own_{number}", cluster.host()));
    }
    (cluster, urls)
}

async fn open(url: &str, clock: &Clock) -> StoreHarness {
    // Each harness derives its ids from the time of its creation.
    clock.advance(Duration::from_secs(1));
    StoreHarness::new(PostgresStore::open(url, clock.clone()).await.unwrap(), clock.clone())
}

async fn works(url: &str, clock: &Clock) {
    let bench = open(url, clock).await;
    let lease = bench.running().await;
    bench.settle(&lease, done()).await.unwrap();
    bench.record(lease.job.id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_without_createrole_runs_without_row_security_until_the_role_exists() {
    let (cluster, urls) = cluster_of("plain", "", 1).await;
    let clock = StoreHarness::clock();
    let url = &urls[0];
    let commands = ["CREATE ROLE longhaul_tenant NOLOGIN", "GRANT longhaul_tenant TO plain"];
    let missing = RowSecurity::Missing(commands.map(str::to_owned).to_vec());
    assert_eq!(inspect(url).await.unwrap().row_security, missing, "before the first start");
    works(url, &clock).await;
    assert_eq!(inspect(url).await.unwrap().row_security, missing);

    let admin = connect(cluster.url()).await;
    admin.batch_execute(&commands.join(";")).await.unwrap();
    works(url, &clock).await;
    assert_eq!(inspect(url).await.unwrap().row_security, RowSecurity::Active);

    // Reads really use the tenant role: they fail when it loses its rights.
    let bench = open(url, &clock).await;
    let job = bench.pending().await;
    let owner = connect(url).await;
    owner.batch_execute("REVOKE SELECT ON longhaul.jobs FROM longhaul_tenant").await.unwrap();
    let refused = bench.store().job(&job.tenant, job.id).await.unwrap_err();
    assert!(refused.to_string().contains("permission denied"), "{refused}");
    assert_eq!(bench.claim(1).await.len(), 1, "the house goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_role_with_bypassrls_counts_as_missing_row_security() {
    let (cluster, urls) = cluster_of("plain", "", 1).await;
    let clock = StoreHarness::clock();
    let admin = connect(cluster.url()).await;
    let set_up = "CREATE ROLE longhaul_tenant NOLOGIN BYPASSRLS; GRANT longhaul_tenant TO plain";
    admin.batch_execute(set_up).await.unwrap();
    let command = "ALTER ROLE longhaul_tenant NOSUPERUSER NOBYPASSRLS".to_owned();
    works(&urls[0], &clock).await;
    assert_eq!(
        inspect(&urls[0]).await.unwrap().row_security,
        RowSecurity::Missing(vec![command.clone()])
    );
    admin.batch_execute(&command).await.unwrap();
    assert_eq!(inspect(&urls[0]).await.unwrap().row_security, RowSecurity::Active);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_starts_on_one_cluster_all_enable_row_security() {
    let (_cluster, urls) = cluster_of("builder", "CREATEROLE", 8).await;
    let mut opening = JoinSet::new();
    for url in urls.iter().chain(&urls) {
        let url = format!("{url}?pool_max=2");
        opening.spawn(async move { PostgresStore::open(&url, Clock::system()).await });
    }
    let stores = opening.join_all().await;
    for store in &stores {
        assert!(store.is_ok(), "{:?}", store.as_ref().err());
    }
    for url in &urls {
        assert_eq!(inspect(url).await.unwrap().row_security, RowSecurity::Active);
        let client = connect(url).await;
        let granted = "SELECT has_table_privilege('longhaul_tenant', 'longhaul.audit', 'SELECT')";
        assert!(client.query_one(granted, &[]).await.unwrap().get::<_, bool>(0), "{url}");
    }
}

/// A replica whose user owns no tables depends on grants by the owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_role_without_tables_gets_row_security_at_the_owners_next_start() {
    let (cluster, urls) = cluster_of("builder", "CREATEROLE", 1).await;
    let clock = StoreHarness::clock();
    works(&urls[0], &clock).await;
    let owner = connect(&urls[0]).await;
    let grant = "CREATE ROLE \"a worker\" LOGIN;
        GRANT USAGE ON SCHEMA longhaul TO \"a worker\";
        GRANT longhaul_tenant TO \"a worker\";
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA longhaul TO \"a worker\"";
    owner.batch_execute(grant).await.unwrap();
    let url = format!("postgres://a%20worker@{}/own_0", cluster.host());
    let missing = vec!["SELECT longhaul.grant_replica('\"a worker\"')".to_owned()];
    assert_eq!(inspect(&url).await.unwrap().row_security, RowSecurity::Missing(missing));
    works(&url, &clock).await;
    works(&urls[0], &clock).await;
    assert_eq!(inspect(&url).await.unwrap().row_security, RowSecurity::Active);
    let bench = open(&url, &clock).await;
    let job = bench.pending().await;
    let page = PageRequest::new(10, None);
    let listed = bench.store().jobs(&job.tenant, &Filter::default(), &page).await.unwrap();
    assert!(listed.jobs.contains(&job));
}
