//! Schema migrations, applied by one process at a time.

use tokio_postgres::Client;

use crate::store::postgres::connection::database::{PgDatabase, query_unprepared};
use crate::store::postgres::connection::error::{PgError, describe, to_store_error};
use crate::store::postgres::{OpenError, sql};

/// Advisory lock of migrations; the same for every version of this program.
const MIGRATION_LOCK: i64 = 0x4c4f_4e47_4841_554c;

/// The schema versions before and after a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationReport {
    /// Version before; 0 if there was no schema.
    pub from: i32,
    /// Version after.
    pub to: i32,
}

/// Applies missing migrations. If several replicas start at once, one migrates while the others wait.
pub(crate) async fn migrate(database: &PgDatabase) -> Result<MigrationReport, OpenError> {
    let client = database.dedicated_connection().await.map_err(connect_error)?;
    let known = version_number(sql::MIGRATIONS.len());
    // First without the lock, so that a role that may not create anything can start.
    if current_version(&client).await.is_ok_and(|version| version == known) {
        return Ok(MigrationReport { from: known, to: known });
    }
    // In one transaction, because behind a pooler nothing lasts from one transaction to the next.
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0;
        SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"
    );
    client.batch_execute(&begin).await.map_err(OpenError::Migration)?;
    client.batch_execute(sql::CREATE_SCHEMA).await.map_err(OpenError::Migration)?;
    client.batch_execute(sql::CREATE_MIGRATIONS).await.map_err(OpenError::Migration)?;
    let found = current_version(&client).await.map_err(OpenError::Migration)?;
    if found > known {
        return Err(OpenError::TooNew { found, known });
    }
    for (index, migration) in sql::MIGRATIONS.iter().enumerate() {
        let version = version_number(index + 1);
        if version > found {
            client.batch_execute(migration).await.map_err(OpenError::Migration)?;
            let recorded = query_unprepared(&client, sql::RECORD_MIGRATION, &[&version]).await;
            recorded.map_err(OpenError::Migration)?;
            tracing::info!(version, "migrated the schema");
        }
    }
    client.batch_execute("COMMIT").await.map_err(OpenError::Migration)?;
    Ok(MigrationReport { from: found, to: known })
}

/// Returns the schema's version; an error if there is no schema.
async fn current_version(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let rows = client.query_typed(sql::SCHEMA_VERSION, &[]).await?;
    rows.first().map_or(Ok(0), |row| row.try_get(0))
}

/// Returns the schema's version, or 0 if there is no schema. Rejects one that is too new.
pub(crate) async fn schema_version(client: &Client) -> Result<i32, OpenError> {
    let found = current_version(client).await.unwrap_or(0);
    let known = version_number(sql::MIGRATIONS.len());
    if found > known { Err(OpenError::TooNew { found, known }) } else { Ok(found) }
}

fn version_number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

pub(crate) fn connect_error(error: PgError) -> OpenError {
    let is_unreachable = error.is_unreachable();
    let reason = match error {
        PgError::Database(error) => describe(&error),
        PgError::NoConnection(reason) => reason,
        PgError::TimedOut => "the server did not respond in time".to_owned(),
        other @ (PgError::Store(_) | PgError::Unreadable(_) | PgError::Conflict) => {
            to_store_error(other).to_string()
        }
    };
    if is_unreachable { OpenError::Unreachable(reason) } else { OpenError::Connect(reason) }
}
