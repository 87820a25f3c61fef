//! Work for a thread that owns a connection.

use std::cell::{Cell, RefCell};

use rusqlite::{Connection, OptionalExtension, Params, Row};
use tokio::sync::oneshot;

use super::error::{Trouble, to_store_error};
use super::usage::Used;
use crate::job::Timestamp;
use crate::store::StoreError;
use crate::store::outbox::Subscriptions;

/// An open transaction and its time, which is the same for all that happens in it.
pub(super) struct Tx<'a> {
    pub(super) conn: &'a Connection,
    pub(super) now: Timestamp,
    /// Set by what deletes: the write-ahead log still holds it.
    pub(super) deleted: Cell<bool>,
    /// What jobs used that ended in it, written once for all of them before the commit.
    pub(super) used: RefCell<Used>,
    /// Who is told of what happens, once somebody asked. Whatever changes an endpoint empties it.
    pub(super) listeners: RefCell<Option<Subscriptions>>,
    /// Whether deliveries were written.
    pub(super) wrote_deliveries: Cell<bool>,
}

impl<'a> Tx<'a> {
    pub(super) fn new(conn: &'a Connection, now: Timestamp) -> Self {
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
    pub(super) fn run(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.conn.prepare_cached(sql)?.execute(params)
    }

    /// The first row, if there is one.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.conn.prepare_cached(sql)?.query_row(params, read).optional()
    }

    /// All rows.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.conn.prepare_cached(sql)?.query_map(params, read)?.collect()
    }
}

/// How a body ended.
pub(super) enum Ran {
    /// With a value, to be answered once it is committed.
    Done,
    /// With a refusal.
    Refused,
    /// With an error that nobody expected; whatever it wrote must go.
    Failed(rusqlite::Error),
}

/// A call that waits for its answer. Its body may run twice: a batch that fails is rolled back and
/// its tasks run again alone.
pub(super) trait Task: Send {
    /// Runs the body and keeps what it returned.
    fn run(&mut self, tx: &Tx<'_>) -> Ran;
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
pub(super) fn call<T, F>(body: F) -> (Box<dyn Task>, oneshot::Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    F: FnMut(&Tx<'_>) -> Result<T, Trouble> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Call { body, returned: None, reply }), answer)
}

impl<T, F> Task for Call<T, F>
where
    T: Send,
    F: FnMut(&Tx<'_>) -> Result<T, Trouble> + Send,
{
    fn run(&mut self, tx: &Tx<'_>) -> Ran {
        match (self.body)(tx) {
            Ok(value) => {
                self.returned = Some(Ok(value));
                Ran::Done
            }
            Err(Trouble::Refused(error)) => {
                self.returned = Some(Err(error));
                Ran::Refused
            }
            Err(Trouble::Sql(error)) => {
                self.returned = Some(Err(to_store_error(&error)));
                Ran::Failed(error)
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
