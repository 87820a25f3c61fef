//! Prepared statements of a connection.

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::{Connection, Statement};

/// Runs prepared statements. A trait, because it hides the lifetime of the connection.
pub(crate) trait PreparedStatements {
    /// Passes the prepared statement to `run`.
    fn with(
        &self,
        sql: &'static str,
        run: &mut dyn FnMut(&mut Statement<'_>),
    ) -> rusqlite::Result<()>;
}

/// The statements of a connection, prepared once each and found by the address of their text: the cache of `rusqlite`
/// hashes and compares the text for every use, which costs as much as a short statement.
pub(crate) struct Statements<'c> {
    conn: &'c Connection,
    prepared: RefCell<HashMap<(usize, usize), Statement<'c>>>,
}

impl<'c> Statements<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self { conn, prepared: RefCell::default() }
    }
}

impl PreparedStatements for Statements<'_> {
    fn with(
        &self,
        sql: &'static str,
        run: &mut dyn FnMut(&mut Statement<'_>),
    ) -> rusqlite::Result<()> {
        let key = (sql.as_ptr().addr(), sql.len());
        // Taken out while it runs, because reading a row may run another statement.
        let taken = self.prepared.borrow_mut().remove(&key);
        let mut statement = match taken {
            Some(statement) => statement,
            None => self.conn.prepare(sql)?,
        };
        run(&mut statement);
        self.prepared.borrow_mut().insert(key, statement);
        Ok(())
    }
}
