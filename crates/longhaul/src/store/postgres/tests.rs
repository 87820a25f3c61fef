//! Tests of the statements against a migrated database.

mod plans;
mod row_security;

use std::collections::BTreeSet;
use std::fs;

use super::{PostgresStore, sql};
use crate::clock::Clock;

/// Creates a database in the cluster that `make` started. It is removed together with the cluster.
async fn database() -> String {
    // tidy: allow(environment) only the process that started the test cluster knows its address
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
            panic!("{name}: {}", super::connection::error::describe(&error));
        }
    }
    drop(store);
}

/// Otherwise a job that returns to its queue would need a new entry in every index.
#[tokio::test]
async fn no_index_of_jobs_has_a_column_that_changes() {
    let url = database().await;
    let store = PostgresStore::open(&url, Clock::system()).await.unwrap();
    let client = connect(&url).await;
    // As parts of keys or of conditions.
    let indexed = "SELECT DISTINCT attname::text FROM pg_index
        JOIN pg_attribute ON attrelid = indrelid AND (attnum = ANY (indkey) OR EXISTS (
            SELECT FROM pg_depend
            WHERE objid = indexrelid AND refobjid = indrelid AND refobjsubid = attnum
        ))
        WHERE indrelid = 'longhaul.jobs'::regclass";
    let rows = client.query(indexed, &[]).await.unwrap();
    let columns: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let constant = ["id", "idempotency_key", "parent_id", "tenant_id"];
    assert_eq!(columns, constant.map(str::to_owned).into());
    drop(store);
}

/// The compiler reports statements that are in the list but not used.
#[test]
fn every_file_is_in_the_list() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/postgres/sql");
    let mut files = BTreeSet::new();
    for group in fs::read_dir(folder).unwrap() {
        let group = group.unwrap().path();
        let name = group.file_name().unwrap().to_str().unwrap();
        if name == "migrations" {
            continue;
        }
        for file in fs::read_dir(&group).unwrap() {
            let file = file.unwrap().path();
            files.insert(format!("{name}/{}", file.file_stem().unwrap().to_str().unwrap()));
        }
    }
    let listed: BTreeSet<String> = sql::ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, listed);
}
