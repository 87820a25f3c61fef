//! Schema migrations.

use rusqlite::{Connection, TransactionBehavior};

use crate::store::sqlite::connection::open::OpenError;

/// The migrations with their version numbers, oldest first. Forward only: a released migration is never
/// edited.
pub(crate) const MIGRATIONS: [(u32, &str); 1] =
    [(1, include_str!("../sql/migrations/0001_initial.sql"))];

/// The newest schema version that this program supports.
pub(crate) const KNOWN: u32 = {
    let [.., (number, _)] = MIGRATIONS;
    number
};

/// Runs the missing migrations in one transaction.
pub(crate) fn migrate(conn: &mut Connection) -> Result<(), OpenError> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = schema_version(&tx)?;
    if found > KNOWN {
        return Err(OpenError::TooNew { found, known: KNOWN });
    }
    for (_, migration) in MIGRATIONS.iter().filter(|(number, _)| *number > found) {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "user_version", KNOWN)?;
    Ok(tx.commit()?)
}

/// Returns the schema's version; 0 if there is no schema.
pub(crate) fn schema_version(conn: &Connection) -> rusqlite::Result<u32> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
}
