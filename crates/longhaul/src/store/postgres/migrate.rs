//! Brings the schema up to what this program knows, one process at a time.

use tokio_postgres::Client;

use super::OpenError;
use super::database::Database;
use super::error::{Trouble, to_store_error};
use super::sql::MIGRATIONS;

/// Any number, as long as every version of this program takes the same one.
const LOCK: i64 = 0x4c4f_4e47_4841_554c;

/// How far a schema was brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The version that it had; 0 if there was none.
    pub from: i32,
    /// The version that it has.
    pub to: i32,
}

/// Applies what is missing. Several replicas may start at once: one migrates, the others wait and find
/// it done.
pub(super) async fn migrate(database: &Database) -> Result<Migrated, OpenError> {
    let client = database.own_connection().await.map_err(connect_error)?;
    let known = version_number(MIGRATIONS.len());
    // A look without the lock first: a role that may not create anything can still start.
    if current(&client).await.is_ok_and(|version| version == known) {
        return Ok(Migrated { from: known, to: known });
    }
    // In a transaction, because behind a pooler nothing else lasts from one statement to the next.
    let begin =
        format!("BEGIN; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({LOCK})");
    client.batch_execute(&begin).await.map_err(OpenError::Migration)?;
    client.batch_execute(BOOKKEEPING).await.map_err(OpenError::Migration)?;
    let found = current(&client).await.map_err(OpenError::Migration)?;
    if found > known {
        return Err(OpenError::TooNew { found, known });
    }
    for (step, sql) in MIGRATIONS.iter().enumerate() {
        let version = version_number(step + 1);
        if version > found {
            client.batch_execute(sql).await.map_err(OpenError::Migration)?;
            let note = format!("INSERT INTO longhaul.migrations (version) VALUES ({version})");
            client.batch_execute(&note).await.map_err(OpenError::Migration)?;
            tracing::info!(version, "migrated the schema");
        }
    }
    client.batch_execute("COMMIT").await.map_err(OpenError::Migration)?;
    Ok(Migrated { from: found, to: known })
}

const BOOKKEEPING: &str = "
    CREATE SCHEMA IF NOT EXISTS longhaul;
    CREATE TABLE IF NOT EXISTS longhaul.migrations (
        version integer PRIMARY KEY,
        applied_at timestamptz NOT NULL DEFAULT now()
    )";

/// The version that the schema has; an error if there is none.
async fn current(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let sql = "SELECT coalesce(max(version), 0) FROM longhaul.migrations";
    let rows = client.query_typed(sql, &[]).await?;
    rows.first().map_or(Ok(0), |row| row.try_get(0))
}

/// The version that the schema has, 0 if there is none. Refuses one that is too new.
pub(super) async fn schema(client: &Client) -> Result<i32, OpenError> {
    let (found, known) = (current(client).await.unwrap_or(0), version_number(MIGRATIONS.len()));
    if found > known { Err(OpenError::TooNew { found, known }) } else { Ok(found) }
}

fn version_number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

pub(super) fn connect_error(trouble: Trouble) -> OpenError {
    match trouble {
        Trouble::Database(error) => OpenError::Connect(super::error::describe(&error)),
        other @ (Trouble::Refused(_)
        | Trouble::NoConnection(_)
        | Trouble::TimedOut
        | Trouble::Unreadable(_)
        | Trouble::Overtaken) => OpenError::Connect(to_store_error(other).to_string()),
    }
}
