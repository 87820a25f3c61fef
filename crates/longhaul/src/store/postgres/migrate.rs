//! Brings the schema up to what this program knows, one process at a time.

use tokio_postgres::Client;

use super::database::{Database, query_unprepared};
use super::error::{Trouble, to_store_error};
use super::{OpenError, sql};

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
    let known = version_number(sql::MIGRATIONS.len());
    // A look without the lock first: a role that may not create anything can still start.
    if current(&client).await.is_ok_and(|version| version == known) {
        return Ok(Migrated { from: known, to: known });
    }
    // In a transaction, because behind a pooler nothing else lasts from one statement to the next.
    let begin =
        format!("BEGIN; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({LOCK})");
    client.batch_execute(&begin).await.map_err(OpenError::Migration)?;
    client.batch_execute(sql::MAKE_SCHEMA).await.map_err(OpenError::Migration)?;
    client.batch_execute(sql::MAKE_MIGRATIONS).await.map_err(OpenError::Migration)?;
    let found = current(&client).await.map_err(OpenError::Migration)?;
    if found > known {
        return Err(OpenError::TooNew { found, known });
    }
    for (step, migration) in sql::MIGRATIONS.iter().enumerate() {
        let version = version_number(step + 1);
        if version > found {
            client.batch_execute(migration).await.map_err(OpenError::Migration)?;
            let noted = query_unprepared(&client, sql::NOTE_MIGRATION, &[&version]).await;
            noted.map_err(OpenError::Migration)?;
            tracing::info!(version, "migrated the schema");
        }
    }
    client.batch_execute("COMMIT").await.map_err(OpenError::Migration)?;
    Ok(Migrated { from: found, to: known })
}

/// The version that the schema has; an error if there is none.
async fn current(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let rows = client.query_typed(sql::SCHEMA_VERSION, &[]).await?;
    rows.first().map_or(Ok(0), |row| row.try_get(0))
}

/// The version that the schema has, 0 if there is none. Refuses one that is too new.
pub(super) async fn schema(client: &Client) -> Result<i32, OpenError> {
    let (found, known) =
        (current(client).await.unwrap_or(0), version_number(sql::MIGRATIONS.len()));
    if found > known { Err(OpenError::TooNew { found, known }) } else { Ok(found) }
}

fn version_number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

pub(super) fn connect_error(trouble: Trouble) -> OpenError {
    match trouble {
        Trouble::Database(error) => OpenError::Connect(super::error::describe(&error)),
        Trouble::NoConnection(why) => OpenError::Connect(why),
        other @ (Trouble::Refused(_)
        | Trouble::TimedOut
        | Trouble::Unreadable(_)
        | Trouble::Overtaken) => OpenError::Connect(to_store_error(other).to_string()),
    }
}
