//! Brings a database to the shape that this program knows.

use rusqlite::{Connection, TransactionBehavior};

use super::open::OpenError;

/// Forward only; a released one is never edited.
pub(super) const MIGRATIONS: [(u32, &str); 9] = [
    (1, include_str!("sql/migrations/0001_jobs.sql")),
    (2, include_str!("sql/migrations/0002_replicas.sql")),
    (3, include_str!("sql/migrations/0003_flow.sql")),
    (4, include_str!("sql/migrations/0004_blobs.sql")),
    (5, include_str!("sql/migrations/0005_accounts.sql")),
    (6, include_str!("sql/migrations/0006_usage.sql")),
    (7, include_str!("sql/migrations/0007_webhooks.sql")),
    (8, include_str!("sql/migrations/0008_outboxes.sql")),
    (9, include_str!("sql/migrations/0009_tokens.sql")),
];

/// The newest shape that this program knows.
pub(super) const KNOWN: u32 = {
    let [.., (number, _)] = MIGRATIONS;
    number
};

/// Runs what is missing, all in one transaction.
pub(super) fn migrate(conn: &mut Connection) -> Result<(), OpenError> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: u32 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > KNOWN {
        return Err(OpenError::TooNew { found, known: KNOWN });
    }
    for (_, migration) in MIGRATIONS.iter().filter(|(number, _)| *number > found) {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "user_version", KNOWN)?;
    Ok(tx.commit()?)
}
