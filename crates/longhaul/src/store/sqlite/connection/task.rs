//! Tasks for a thread that owns a connection.

use std::cell::{Cell, RefCell};

use rusqlite::{Connection, OptionalExtension, Params, Statement};
use tokio::sync::oneshot;

use crate::job::Timestamp;
use crate::store::StoreError;
use crate::store::columns::{FromRow, ReadColumns};
use crate::store::outbox::Subscriptions;
use crate::store::sqlite::connection::columns::Columns;
use crate::store::sqlite::connection::error::{SqliteError, to_store_error};
use crate::store::sqlite::connection::statements::PreparedStatements;
use crate::store::sqlite::lease_cache::LeaseCache;
use crate::store::sqlite::maintenance::usage::UsageTotals;

/// An open transaction, with one fixed time for each task.
pub(crate) struct Tx<'a> {
    pub(crate) conn: &'a Connection,
    statements: &'a dyn PreparedStatements,
    pub(crate) now: Timestamp,
    /// True if rows were deleted, because the write-ahead log still contains their content.
    pub(crate) deleted: Cell<bool>,
    /// Usage of jobs that finished in this transaction, written once before the commit.
    pub(crate) used: RefCell<UsageTotals>,
    /// True if deliveries were written.
    pub(crate) wrote_deliveries: Cell<bool>,
    pub(crate) caches: WriterCaches,
}

/// Rows that the writer has read, as they are stored. It is the only writer, and it empties them after a rollback. Empty
/// in transactions of readers.
#[derive(Default)]
pub(crate) struct WriterCaches {
    /// Endpoint subscriptions, once they were read. Cleared by a change of an endpoint.
    pub(crate) subscriptions: RefCell<Option<Subscriptions>>,
    /// Running jobs.
    pub(crate) leases: RefCell<LeaseCache>,
    /// True if any queue is paused, once that was read. Cleared by a pause and a resume.
    pub(crate) has_paused_queues: Cell<Option<bool>>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(
        conn: &'a Connection,
        statements: &'a dyn PreparedStatements,
        now: Timestamp,
    ) -> Self {
        Self {
            conn,
            statements,
            now,
            deleted: Cell::new(false),
            used: RefCell::default(),
            wrote_deliveries: Cell::new(false),
            caches: WriterCaches::default(),
        }
    }
}

impl Tx<'_> {
    /// Prepares a statement, unless it is prepared already, and passes it to `run`.
    fn with<T>(
        &self,
        sql: &'static str,
        run: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let (mut run, mut result) = (Some(run), None);
        self.statements.with(sql, &mut |statement| {
            result = run.take().map(|run| run(statement));
        })?;
        result.unwrap_or(Err(rusqlite::Error::InvalidQuery))
    }

    /// Executes a statement and returns the number of changed rows.
    pub(crate) fn run(&self, sql: &'static str, params: impl Params) -> rusqlite::Result<usize> {
        self.with(sql, |statement| statement.execute(params))
    }

    /// Returns the first row, if any.
    pub(crate) fn one<T: FromRow>(
        &self,
        sql: &'static str,
        params: impl Params,
    ) -> rusqlite::Result<Option<T>> {
        self.with(sql, |statement| {
            statement.query_row(params, |row| Columns::of(row).get()).optional()
        })
    }

    /// Returns true if there is a row.
    pub(crate) fn exists(&self, sql: &'static str, params: impl Params) -> rusqlite::Result<bool> {
        self.with(sql, |statement| statement.exists(params))
    }

    /// Returns all rows.
    pub(crate) fn all<T: FromRow>(
        &self,
        sql: &'static str,
        params: impl Params,
    ) -> rusqlite::Result<Vec<T>> {
        self.with(sql, |statement| {
            statement.query_map(params, |row| Columns::of(row).get())?.collect()
        })
    }
}

/// The outcome of a task's body.
pub(crate) enum TaskOutcome {
    /// Succeeded. The result is sent after the commit.
    Done,
    /// Rejected the call.
    Rejected,
    /// Failed with a database error. Its writes must be rolled back.
    Failed(rusqlite::Error),
}

/// A call whose caller awaits the result. Its body may run twice, because a failed batch is rolled back
/// and its tasks run again one by one.
pub(crate) trait Task: Send {
    /// Runs the body and keeps its result.
    fn run(&mut self, tx: &Tx<'_>) -> TaskOutcome;
    /// Sends the result of the body.
    fn answer(self: Box<Self>);
    /// Sends an error.
    fn fail(self: Box<Self>, error: StoreError);
}

struct Call<T, F> {
    body: F,
    returned: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

/// Creates a task and the receiver of its result.
pub(crate) fn call<T, F>(body: F) -> (Box<dyn Task>, oneshot::Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    F: FnMut(&Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Call { body, returned: None, reply }), answer)
}

impl<T, F> Task for Call<T, F>
where
    T: Send,
    F: FnMut(&Tx<'_>) -> Result<T, SqliteError> + Send,
{
    fn run(&mut self, tx: &Tx<'_>) -> TaskOutcome {
        match (self.body)(tx) {
            Ok(value) => {
                self.returned = Some(Ok(value));
                TaskOutcome::Done
            }
            Err(SqliteError::Rejected(error)) => {
                self.returned = Some(Err(error));
                TaskOutcome::Rejected
            }
            Err(SqliteError::Database(error)) => {
                self.returned = Some(Err(to_store_error(&error)));
                TaskOutcome::Failed(error)
            }
        }
    }

    fn answer(self: Box<Self>) {
        if let Some(returned) = self.returned {
            // Fails if the caller no longer waits; the write is committed all the same.
            drop(self.reply.send(returned));
        }
    }

    fn fail(self: Box<Self>, error: StoreError) {
        drop(self.reply.send(Err(error)));
    }
}
