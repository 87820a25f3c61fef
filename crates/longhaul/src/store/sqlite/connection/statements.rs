//! Prepared statements of a connection.

use std::cell::RefCell;

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
    /// Sorted by address and length. `None` while a statement runs.
    prepared: RefCell<Vec<(TextAddress, Option<Statement<'c>>)>>,
}

/// Address and length of a statement's text.
type TextAddress = (usize, usize);

impl<'c> Statements<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self { conn, prepared: RefCell::default() }
    }

    /// Passes the slot of a statement to `access`.
    fn slot<T>(&self, key: TextAddress, access: impl FnOnce(&mut Option<Statement<'c>>) -> T) -> T {
        let mut prepared = self.prepared.borrow_mut();
        match prepared.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(index) => access(prepared.get_mut(index).map_or(&mut None, |(_, slot)| slot)),
            Err(index) => {
                let mut slot = None;
                let accessed = access(&mut slot);
                prepared.insert(index, (key, slot));
                accessed
            }
        }
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
        let mut statement = match self.slot(key, Option::take) {
            Some(statement) => statement,
            None => self.conn.prepare(sql)?,
        };
        run(&mut statement);
        self.slot(key, |slot| *slot = Some(statement));
        Ok(())
    }
}
