//! The one thread that writes, and how concurrent writes share a sync.
//!
//! Whatever is queued while a commit runs goes into the next one: under load many calls pay for one
//! sync, and a lone call never waits for company. Nothing is answered before its commit returned.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{Notify, mpsc};

use super::wal::Log;
use crate::clock::Clock;
use crate::store::StoreError;
use crate::store::outbox::Subscriptions;
use crate::store::sqlite::connection::error::{SqliteError, to_store_error};
use crate::store::sqlite::connection::open::Marker;
use crate::store::sqlite::connection::task::{Task, TaskOutcome, Tx, call};
use crate::store::sqlite::maintenance::usage;

/// Calls that may wait in line; more wait for room before they enter.
const TASKS_QUEUED_MAX: usize = 4_096;
/// Calls that share a commit at most, which bounds how long the first of them waits.
const BATCH_TASKS_MAX: usize = 1_024;

/// A handle to the thread. Dropping it finishes what is queued, then closes the connection.
pub(crate) struct Writer {
    tasks: Option<mpsc::Sender<Box<dyn Task>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Removes the marker once the connection is closed well.
    pub(crate) fn start(
        conn: Connection,
        clock: Clock,
        marker: Option<Marker>,
        outbox_notify: Arc<Notify>,
    ) -> io::Result<Self> {
        let (tasks, queue) = mpsc::channel(TASKS_QUEUED_MAX);
        let thread =
            thread::Builder::new().name("longhaul-writer".to_owned()).spawn(move || {
                let log = Log::found(clock.now());
                let mut writer =
                    Loop { conn, clock, log, broken: None, listeners: None, outbox_notify };
                writer.run(queue);
                if writer.close()
                    && let Some(marker) = marker
                {
                    marker.remove();
                }
            })?;
        Ok(Self { tasks: Some(tasks), thread: Some(thread) })
    }

    /// Runs `body` in a transaction and returns once it is committed and synced.
    pub(crate) async fn call<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        let (task, answer) = call(body);
        self.send(task).await?;
        answer.await.map_err(|_| gone())?
    }

    /// Queues a task; its answer comes over its own channel.
    pub(crate) async fn send(&self, task: Box<dyn Task>) -> Result<(), StoreError> {
        match &self.tasks {
            Some(tasks) => tasks.send(task).await.map_err(|_| gone()),
            None => Err(gone()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread ends when the channel closes.
        self.tasks = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes to the database had panicked");
        }
    }
}

/// The thread is gone, and with it the only way to write.
pub(crate) fn gone() -> StoreError {
    StoreError::Broken("the thread that writes to the database has stopped".to_owned())
}

struct Loop {
    conn: Connection,
    clock: Clock,
    log: Log,
    /// Set by the first error after which nobody knows what is on the disk. From then on nothing
    /// is acknowledged: a sync that failed once may report success later without having synced.
    broken: Option<StoreError>,
    /// Who is told of what happens, as far as it was read and not changed since.
    listeners: Option<Subscriptions>,
    /// Told when deliveries were written.
    outbox_notify: Arc<Notify>,
}

/// What a batch wrote, besides the answers of its tasks.
struct Wrote {
    /// Whether something was deleted.
    deleted: bool,
    /// Whether there are deliveries.
    wrote_deliveries: bool,
    listeners: Option<Subscriptions>,
}

/// Why a batch left nothing behind.
enum BatchFailure {
    /// One of its tasks refused after it had written, or met an error that may be its own.
    Task(Option<StoreError>),
    /// None of its tasks could have done better.
    Database(StoreError),
}

impl Loop {
    fn run(&mut self, mut queue: mpsc::Receiver<Box<dyn Task>>) {
        self.tend_log(true);
        while let Some(first) = queue.blocking_recv() {
            let mut batch = vec![first];
            while batch.len() < BATCH_TASKS_MAX
                && let Ok(task) = queue.try_recv()
            {
                batch.push(task);
            }
            self.run_batch(batch);
            self.tend_log(queue.is_empty());
        }
    }

    /// Whether all that was written is in the database now.
    fn close(mut self) -> bool {
        if self.broken.is_none()
            && let Err(error) = self.log.empty(&self.conn)
        {
            self.note(&error);
        }
        let closed = self.conn.close().map_err(|(_, error)| error);
        if let Err(error) = &closed {
            tracing::error!(%error, "the database cannot be closed");
        }
        closed.is_ok() && self.broken.is_none()
    }

    /// After the answers, so that nobody waits for it but what comes next.
    fn tend_log(&mut self, idle: bool) {
        if self.broken.is_some() {
            return;
        }
        if let Err(error) = self.log.tend(&self.conn, self.clock.now(), idle) {
            let error = self.note(&error);
            if self.broken.is_none() {
                tracing::warn!(%error, "the write-ahead log cannot be moved into the database");
            }
        }
    }

    /// Commits a batch and answers. If it cannot be committed, each of its tasks gets a transaction
    /// of its own, so that one failing item fails alone and the usual path pays no savepoints.
    fn run_batch(&mut self, mut batch: Vec<Box<dyn Task>>) {
        match self.commit(&mut batch) {
            Err(BatchFailure::Task(_)) if batch.len() > 1 => {
                for task in batch {
                    self.run_batch(vec![task]);
                }
            }
            // A refusal is the answer, now that nothing is left of what was written before it.
            Ok(()) | Err(BatchFailure::Task(None)) => batch.into_iter().for_each(Task::answer),
            Err(BatchFailure::Task(Some(error)) | BatchFailure::Database(error)) => {
                for task in batch {
                    task.fail(error.clone());
                }
            }
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Task>]) -> Result<(), BatchFailure> {
        if let Some(error) = &self.broken {
            return Err(BatchFailure::Database(error.clone()));
        }
        // A database that cannot begin is busy or broken; asking again for each task would only
        // multiply the wait.
        self.execute("BEGIN IMMEDIATE")
            .map_err(|error| BatchFailure::Database(self.note(&error)))?;
        let committed = self.run_bodies(batch).and_then(|wrote| {
            self.execute("COMMIT").map_err(Some)?;
            Ok(wrote)
        });
        let cause = match committed {
            Ok(Wrote { deleted, wrote_deliveries, listeners }) => {
                self.listeners = listeners;
                if deleted {
                    self.log.note_deleted(self.clock.now());
                }
                if wrote_deliveries {
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

    /// Errs with the error of the body that failed, or with none where one refused after it had
    /// written: a refusal leaves no trace.
    fn run_bodies(
        &mut self,
        batch: &mut [Box<dyn Task>],
    ) -> Result<Wrote, Option<rusqlite::Error>> {
        let tx = Tx::new(&self.conn, self.clock.now());
        // Nothing is left of it unless all goes well: what was read may be undone.
        tx.listeners.replace(self.listeners.take());
        for task in batch {
            let changes = self.conn.total_changes();
            match task.run(&tx) {
                TaskOutcome::Done => {}
                TaskOutcome::Rejected if self.conn.total_changes() == changes => {}
                TaskOutcome::Rejected => return Err(None),
                TaskOutcome::Failed(error) => return Err(Some(error)),
            }
        }
        usage::write(&tx).map_err(Some)?;
        let (deleted, wrote_deliveries) = (tx.deleted.get(), tx.wrote_deliveries.get());
        Ok(Wrote { deleted, wrote_deliveries, listeners: tx.listeners.take() })
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<usize> {
        self.conn.prepare_cached(sql)?.execute([])
    }

    /// What an error means to the callers, and to this thread if it is the last one.
    fn note(&mut self, error: &rusqlite::Error) -> StoreError {
        let error = to_store_error(error);
        if matches!(error, StoreError::Broken(_)) {
            tracing::error!(%error, "the database takes no more writes");
            self.broken = Some(error.clone());
        }
        error
    }
}
