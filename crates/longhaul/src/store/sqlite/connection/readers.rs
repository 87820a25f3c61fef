//! Reader threads, each with its own connection.
//!
//! Reads of single jobs have a thread of their own, and so have the other short reads, on which submissions, claims and
//! authentication depend. So they never wait for a list.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::job::Timestamp;
use crate::store::sqlite::connection::error::to_store_error;
use crate::store::sqlite::connection::statements::Statements;
use crate::store::sqlite::connection::task::{Task, TaskOutcome, Tx};
use crate::store::sqlite::connection::threads::TaskThreads;
use crate::sync::Mutex;

/// Maximum number of queued reads. Further callers wait.
const TASKS_QUEUED_MAX: usize = 1_024;
/// Maximum number of reads of single jobs per transaction, which bounds the age of its snapshot.
const BATCH_TASKS_MAX: usize = 64;

/// One queue shared by all threads: an idle thread takes the next task.
type Queue = Arc<Mutex<mpsc::Receiver<Box<dyn Task>>>>;

/// Connections for reads, by the kind of read.
pub(crate) struct ReaderConnections {
    pub(crate) jobs: Connection,
    pub(crate) lookups: Vec<Connection>,
    pub(crate) lists: Vec<Connection>,
}

/// The reader threads, by the kind of read.
pub(crate) struct Readers {
    /// Reads of single jobs, which share transactions.
    pub(crate) jobs: TaskThreads,
    /// Other short reads.
    pub(crate) lookups: TaskThreads,
    /// Lists, sums over many rows, and exports.
    pub(crate) lists: TaskThreads,
    /// One of each connection.
    pub(crate) handles: Vec<Arc<ReaderHandle>>,
}

/// The running read of a connection, for the writer, which interrupts it if it keeps the write-ahead log from being
/// truncated for long.
pub(crate) struct ReaderHandle {
    /// Start of the running read. Locked during an interrupt, so that it cannot hit the next read.
    started_at: Mutex<Option<Timestamp>>,
    interrupt: InterruptHandle,
}

/// A connection of a reader thread.
struct ReaderConnection {
    conn: Connection,
    handle: Arc<ReaderHandle>,
    clock: Clock,
}

impl Readers {
    /// Starts a thread for each connection.
    pub(crate) fn start(connections: ReaderConnections, clock: &Clock) -> io::Result<Self> {
        let mut handles = Vec::new();
        let mut reader = |conn: Connection| {
            let interrupt = conn.get_interrupt_handle();
            let handle = Arc::new(ReaderHandle { started_at: Mutex::default(), interrupt });
            handles.push(Arc::clone(&handle));
            ReaderConnection { conn, handle, clock: clock.clone() }
        };
        let ReaderConnections { jobs, lookups, lists } = connections;
        let jobs = start_jobs(reader(jobs))?;
        let lookups = start_shared(lookups.into_iter().map(&mut reader))?;
        let lists = start_shared(lists.into_iter().map(&mut reader))?;
        Ok(Self { jobs, lookups, lists, handles })
    }
}

impl ReaderHandle {
    /// Interrupts a read that began `age_max` before `now` or earlier. Its caller may repeat it.
    pub(crate) fn interrupt_if_older_than(&self, age_max: Duration, now: Timestamp) {
        let started_at = self.started_at.lock();
        if started_at.is_some_and(|started_at| now.since(started_at) >= age_max) {
            self.interrupt.interrupt();
        }
    }
}

fn start_jobs(reader: ReaderConnection) -> io::Result<TaskThreads> {
    let (tasks, mut queue) = mpsc::channel(TASKS_QUEUED_MAX);
    let mut threads = TaskThreads::new("reader", tasks);
    threads.spawn(move || {
        let statements = Statements::new(&reader.conn);
        let mut batch = Vec::with_capacity(BATCH_TASKS_MAX);
        while queue.blocking_recv_many(&mut batch, BATCH_TASKS_MAX) > 0 {
            reader.read(&statements, batch.drain(..));
        }
    })?;
    Ok(threads)
}

/// Starts threads that share a queue.
fn start_shared(readers: impl Iterator<Item = ReaderConnection>) -> io::Result<TaskThreads> {
    let (tasks, queue) = mpsc::channel(TASKS_QUEUED_MAX);
    let queue = Arc::new(Mutex::new(queue));
    let mut threads = TaskThreads::new("reader", tasks);
    for reader in readers {
        let queue = Arc::clone(&queue);
        threads.spawn(move || reader.serve(&queue))?;
    }
    Ok(threads)
}

impl ReaderConnection {
    fn serve(&self, queue: &Queue) {
        let statements = Statements::new(&self.conn);
        loop {
            // Locked while waiting: the other threads wait for the lock instead of the channel.
            let task = queue.lock().blocking_recv();
            let Some(task) = task else { return };
            self.read(&statements, [task]);
        }
    }

    /// Runs queued tasks in one transaction, because several statements make one result and must see one state of the
    /// database. It begins after the tasks were queued, so each sees every write that was acknowledged before its call.
    fn read(&self, statements: &Statements<'_>, tasks: impl IntoIterator<Item = Box<dyn Task>>) {
        let now = self.clock.now();
        *self.handle.started_at.lock() = Some(now);
        let begun = self.execute("BEGIN");
        let tx = Tx::new(&self.conn, statements, now);
        for mut task in tasks {
            if let Err(error) = &begun {
                task.fail(to_store_error(error));
                continue;
            }
            match task.run(&tx) {
                TaskOutcome::Done | TaskOutcome::Rejected => task.answer(),
                TaskOutcome::Failed(error) => task.fail(to_store_error(&error)),
            }
        }
        // Nothing was written, so ending the transaction cannot change a result. An error may have ended it already.
        if !self.conn.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::warn!(%error, "cannot end a read of the database");
        }
        *self.handle.started_at.lock() = None;
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<usize> {
        self.conn.prepare_cached(sql)?.execute([])
    }
}
