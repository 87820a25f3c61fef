//! Work for a thread that owns a connection.

use std::cell::{Cell, RefCell};

use rusqlite::{Connection, OptionalExtension, Params, Row};
use tokio::sync::oneshot;

use crate::job::Timestamp;
use crate::store::StoreError;
use crate::store::outbox::Subscriptions;
use crate::store::sqlite::connection::error::{SqliteError, to_store_error};
use crate::store::sqlite::maintenance::usage::Used;

/// An open transaction and its time, which is the same for all that happens in it.
pub(crate) struct Tx<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) now: Timestamp,
    /// Set by what deletes: the write-ahead log still holds it.
    pub(crate) deleted: Cell<bool>,
    /// What jobs used that ended in it, written once for all of them before the commit.
    pub(crate) used: RefCell<Used>,
    /// Who is told of what happens, once somebody asked. Whatever changes an endpoint empties it.
    pub(crate) listeners: RefCell<Option<Subscriptions>>,
    /// Whether deliveries were written.
    pub(crate) wrote_deliveries: Cell<bool>,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(conn: &'a Connection, now: Timestamp) -> Self {
        Self {
            conn,
            now,
            deleted: Cell::new(false),
            used: RefCell::default(),
            listeners: RefCell::default(),
            wrote_deliveries: Cell::new(false),
        }
    }
}

impl Tx<'_> {
    /// Runs a statement; how many rows it changed.
    pub(crate) fn run(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.conn.prepare_cached(sql)?.execute(params)
    }

    /// The first row, if there is one.
    pub(crate) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.conn.prepare_cached(sql)?.query_row(params, read).optional()
    }

    /// All rows.
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.conn.prepare_cached(sql)?.query_map(params, read)?.collect()
    }
}

/// How a body ended.
pub(crate) enum TaskOutcome {
    /// With a value, to be answered once it is committed.
    Done,
    /// With a refusal.
    Rejected,
    /// With an error that nobody expected; whatever it wrote must go.
    Failed(rusqlite::Error),
}

/// A call that waits for its answer. Its body may run twice: a batch that fails is rolled back and
/// its tasks run again alone.
pub(crate) trait Task: Send {
    /// Runs the body and keeps what it returned.
    fn run(&mut self, tx: &Tx<'_>) -> TaskOutcome;
    /// Answers with what the body returned.
    fn answer(self: Box<Self>);
    /// Answers with an error instead.
    fn fail(self: Box<Self>, error: StoreError);
}

struct Call<T, F> {
    body: F,
    returned: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

/// A task and where its answer will be.
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
            // The caller may have gone away; what it asked for happened all the same.
            drop(self.reply.send(returned));
        }
    }

    fn fail(self: Box<Self>, error: StoreError) {
        drop(self.reply.send(Err(error)));
    }
}
