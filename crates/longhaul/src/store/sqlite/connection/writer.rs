//! The writer thread, with group commit.
//!
//! Tasks that are queued while a commit or other tasks run share the next commit: under load many calls share one
//! sync, and a single call never waits for others. No result is sent before its commit has returned.

use std::io;
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::{Notify, mpsc};

use super::log_mark;
use super::wal::{LogWork, WalState};
use crate::clock::Clock;
use crate::store::StoreError;
use crate::store::sqlite::connection::error::to_store_error;
use crate::store::sqlite::connection::open::Marker;
use crate::store::sqlite::connection::readers::ReaderHandle;
use crate::store::sqlite::connection::statements::Statements;
use crate::store::sqlite::connection::task::{Task, TaskOutcome, Tx, WriterCaches};
use crate::store::sqlite::connection::threads::TaskThreads;
use crate::store::sqlite::maintenance::usage;

/// Maximum number of queued tasks. Further callers wait.
const TASKS_QUEUED_MAX: usize = 4_096;
/// Maximum number of tasks per commit, which bounds the latency of the first one.
const BATCH_TASKS_MAX: usize = 1_024;

/// Starts the writer thread. It removes the marker when the connection was closed cleanly.
pub(crate) fn start(
    conn: Connection,
    clock: Clock,
    readers: Vec<Arc<ReaderHandle>>,
    marker: Option<Marker>,
    outbox_notify: Arc<Notify>,
) -> io::Result<TaskThreads> {
    let (tasks, queue) = mpsc::channel(TASKS_QUEUED_MAX);
    let mut threads = TaskThreads::new("writer", tasks);
    threads.spawn(move || {
        let log = WalState::found(clock.now(), readers);
        let mut writer = Loop {
            conn: &conn,
            statements: Statements::new(&conn),
            clock,
            log,
            broken: None,
            caches: WriterCaches::default(),
            outbox_notify,
        };
        writer.run(queue);
        let is_complete = writer.finish();
        if close(conn)
            && is_complete
            && let Some(marker) = marker
        {
            marker.remove();
        }
    })?;
    Ok(threads)
}

struct Loop<'c> {
    conn: &'c Connection,
    statements: Statements<'c>,
    clock: Clock,
    log: WalState,
    /// First error after which the state of the disk is unknown. From then on no write is acknowledged,
    /// because a sync that failed once may report success later without having synced.
    broken: Option<StoreError>,
    caches: WriterCaches,
    /// Notified after a commit that wrote deliveries.
    outbox_notify: Arc<Notify>,
}

/// The tasks of one commit. Tasks that are queued while others run join it, so that callers prepare their calls at the
/// same time and still share the commit. There is no wait: it commits as soon as the queue is empty.
struct Batch<'q> {
    tasks: Vec<Box<dyn Task>>,
    /// `None` if no further task may join.
    queue: Option<&'q mut mpsc::Receiver<Box<dyn Task>>>,
}

impl Batch<'_> {
    /// Returns the task at an index, if there is one or one is queued.
    fn task(&mut self, index: usize) -> Option<&mut Box<dyn Task>> {
        if index == self.tasks.len()
            && index < BATCH_TASKS_MAX
            && let Some(queue) = &mut self.queue
        {
            self.tasks.extend(queue.try_recv().ok());
        }
        self.tasks.get_mut(index)
    }
}

/// The effects of a batch besides the results of its tasks.
struct Wrote {
    /// True if rows were deleted.
    deleted: bool,
    /// True if deliveries were written.
    deliveries: bool,
    caches: WriterCaches,
}

/// The reason why a batch was rolled back.
enum BatchFailure {
    /// A task rejected its call after writing, or failed with an error that may be its own.
    Task(Option<StoreError>),
    /// The database failed for all tasks.
    Database(StoreError),
}

impl Loop<'_> {
    fn run(&mut self, mut queue: mpsc::Receiver<Box<dyn Task>>) {
        self.tend_log(true);
        while let Some(first) = queue.blocking_recv() {
            self.run_batch(Batch { tasks: vec![first], queue: Some(&mut queue) });
            self.tend_log(queue.is_empty());
        }
    }

    /// Moves the write-ahead log into the database file. Returns true if everything is there. Then the file has no mark,
    /// because it is complete without the log.
    fn finish(mut self) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let finished = log_mark::clear(self.conn)
            .and_then(|()| self.log.truncate(self.conn, self.clock.now()));
        match finished {
            Ok(work) => work == LogWork::Truncation,
            Err(error) => {
                self.note(&error);
                false
            }
        }
    }

    /// Maintains the write-ahead log. Runs after the results are sent, so that only the next batch waits
    /// for it.
    fn tend_log(&mut self, idle: bool) {
        if self.broken.is_some() {
            return;
        }
        if let Err(error) = self.log.tend(self.conn, self.clock.now(), idle) {
            let error = self.note(&error);
            if self.broken.is_none() {
                tracing::warn!(%error, "cannot checkpoint the write-ahead log");
            }
        }
    }

    /// Commits a batch and sends the results. If the batch fails, each task runs in a separate
    /// transaction, so that one failing task fails alone and the usual path needs no savepoints.
    fn run_batch(&mut self, mut batch: Batch<'_>) {
        let committed = self.commit(&mut batch);
        let tasks = batch.tasks;
        match committed {
            Err(BatchFailure::Task(_)) if tasks.len() > 1 => {
                for task in tasks {
                    self.run_batch(Batch { tasks: vec![task], queue: None });
                }
            }
            // A rejection is the result, because its earlier writes were rolled back.
            Ok(()) | Err(BatchFailure::Task(None)) => tasks.into_iter().for_each(Task::answer),
            Err(BatchFailure::Task(Some(error)) | BatchFailure::Database(error)) => {
                for task in tasks {
                    task.fail(error.clone());
                }
            }
        }
    }

    fn commit(&mut self, batch: &mut Batch<'_>) -> Result<(), BatchFailure> {
        if let Some(error) = &self.broken {
            return Err(BatchFailure::Database(error.clone()));
        }
        // A failed BEGIN is not retried per task, because that would only multiply the wait.
        self.execute("BEGIN IMMEDIATE")
            .map_err(|error| BatchFailure::Database(self.note(&error)))?;
        let committed = self.run_bodies(batch).and_then(|wrote| {
            self.execute("COMMIT").map_err(Some)?;
            Ok(wrote)
        });
        let cause = match committed {
            Ok(Wrote { deleted, deliveries, caches }) => {
                self.caches = caches;
                if deleted {
                    self.log.note_deleted(self.clock.now());
                }
                if deliveries {
                    self.outbox_notify.notify_one();
                }
                return Ok(());
            }
            Err(cause) => cause,
        };
        if !self.conn.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            self.broken = Some(StoreError::Broken(error.to_string()));
        }
        let error = cause.map(|cause| self.note(&cause));
        Err(match &self.broken {
            Some(error) => BatchFailure::Database(error.clone()),
            None => BatchFailure::Task(error),
        })
    }

    /// Runs all bodies. Returns the error of the body that failed, or `None` if one rejected its call after
    /// writing, because a rejection must not leave writes.
    fn run_bodies(&mut self, batch: &mut Batch<'_>) -> Result<Wrote, Option<rusqlite::Error>> {
        let mut tx = Tx::new(self.conn, &self.statements, self.clock.now());
        // Taken out of the caches until the commit succeeds, because reads and writes may be rolled back.
        tx.caches = std::mem::take(&mut self.caches);
        let mut next = 0;
        while let Some(task) = batch.task(next) {
            next += 1;
            // Read again, because a task that joined was sent after the transaction began, and its lease must not end
            // earlier in the store than the worker expects.
            tx.now = self.clock.now();
            let changes = self.conn.total_changes();
            match task.run(&tx) {
                TaskOutcome::Done => {}
                TaskOutcome::Rejected if self.conn.total_changes() == changes => {}
                TaskOutcome::Rejected => return Err(None),
                TaskOutcome::Failed(error) => return Err(Some(error)),
            }
        }
        usage::write(&tx).map_err(Some)?;
        let (deleted, deliveries) = (tx.deleted.get(), tx.wrote_deliveries.get());
        Ok(Wrote { deleted, deliveries, caches: tx.caches })
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<usize> {
        self.conn.prepare_cached(sql)?.execute([])
    }

    /// Maps an error for the callers, and stops writing if it is fatal.
    fn note(&mut self, error: &rusqlite::Error) -> StoreError {
        let error = to_store_error(error);
        if matches!(error, StoreError::Broken(_)) {
            tracing::error!(%error, "the database no longer accepts writes");
            self.broken = Some(error.clone());
        }
        error
    }
}

/// Closes the connection. Returns false if that failed.
fn close(conn: Connection) -> bool {
    let closed = conn.close().map_err(|(_, error)| error);
    if let Err(error) = &closed {
        tracing::error!(%error, "cannot close the database");
    }
    closed.is_ok()
}
