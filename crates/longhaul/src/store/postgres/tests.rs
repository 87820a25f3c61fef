//! The statements against a migrated database.

use std::collections::BTreeSet;
use std::fs;

use super::{PostgresStore, sql};
use crate::clock::Clock;

/// A database of its own in the cluster that `make` started. It goes with the cluster.
async fn database() -> String {
    // tidy: allow(environment) where there is a cluster to test in, only whoever started it knows
    let admin = std::env::var("TEST_POSTGRES_URL").expect("`make test-rust` sets it");
    let name = format!("statements_{:016x}", rand::random::<u64>());
    let client = connect(&admin).await;
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let (cluster, _) = admin.rsplit_once('/').unwrap();
    format!("{cluster}/{name}")
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn every_statement_prepares() {
    let url = database().await;
    let store = PostgresStore::open(&url, Clock::system()).await.unwrap();
    let client = connect(&url).await;
    for (name, sql) in sql::ALL {
        if let Err(error) = client.prepare(sql).await {
            panic!("{name}: {}", super::error::describe(&error));
        }
    }
    drop(store);
}

/// What nobody uses the compiler tells, once it is in the list.
#[test]
fn every_file_is_in_the_list() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/postgres/sql");
    let files: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let listed: BTreeSet<String> = sql::ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, listed);
}
