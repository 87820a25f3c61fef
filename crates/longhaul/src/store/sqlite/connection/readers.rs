//! Reader threads, each with its own connection.
//!
//! Reads of single jobs have a thread of their own, so that they never wait for a long list. Lists and all other reads
//! share the remaining threads.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::store::sqlite::connection::error::to_store_error;
use crate::store::sqlite::connection::statements::Statements;
use crate::store::sqlite::connection::task::{Task, TaskOutcome, Tx};
use crate::store::sqlite::connection::threads::TaskThreads;

/// Maximum number of queued reads. Further callers wait.
const TASKS_QUEUED_MAX: usize = 1_024;
/// Maximum number of reads of single jobs per transaction, which bounds the age of its snapshot.
const BATCH_TASKS_MAX: usize = 64;

/// One queue shared by all threads: an idle thread takes the next task.
type Queue = Arc<Mutex<mpsc::Receiver<Box<dyn Task>>>>;

/// The reader threads, by the kind of read.
pub(crate) struct Readers {
    /// Reads of single jobs.
    pub(crate) jobs: TaskThreads,
    pub(crate) lists: TaskThreads,
}

impl Readers {
    /// Starts one thread for reads of single jobs, and one per connection for lists.
    pub(crate) fn start(
        jobs: Connection,
        lists: Vec<Connection>,
        clock: &Clock,
    ) -> io::Result<Self> {
        Ok(Self { jobs: start_jobs(jobs, clock.clone())?, lists: start_lists(lists, clock)? })
    }
}

fn start_jobs(conn: Connection, clock: Clock) -> io::Result<TaskThreads> {
    let (tasks, mut queue) = mpsc::channel(TASKS_QUEUED_MAX);
    let mut threads = TaskThreads::new("reader", tasks);
    threads.spawn(move || {
        let statements = Statements::new(&conn);
        let mut batch = Vec::with_capacity(BATCH_TASKS_MAX);
        while queue.blocking_recv_many(&mut batch, BATCH_TASKS_MAX) > 0 {
            read(&conn, &statements, &clock, batch.drain(..));
        }
    })?;
    Ok(threads)
}

fn start_lists(conns: Vec<Connection>, clock: &Clock) -> io::Result<TaskThreads> {
    let (tasks, queue) = mpsc::channel(TASKS_QUEUED_MAX);
    let queue = Arc::new(Mutex::new(queue));
    let mut threads = TaskThreads::new("reader", tasks);
    for conn in conns {
        let (queue, clock) = (Arc::clone(&queue), clock.clone());
        threads.spawn(move || serve_lists(&conn, &clock, &queue))?;
    }
    Ok(threads)
}

fn serve_lists(conn: &Connection, clock: &Clock, queue: &Queue) {
    let statements = Statements::new(conn);
    loop {
        // Locked while waiting: the other threads wait for the lock instead of the channel.
        let task = queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(task) = task else { return };
        read(conn, &statements, clock, [task]);
    }
}

/// Runs queued tasks in one transaction, because several statements make one result and must see one state of the
/// database. It begins after the tasks were queued, so each sees every write that was acknowledged before its call.
fn read(
    conn: &Connection,
    statements: &Statements<'_>,
    clock: &Clock,
    tasks: impl IntoIterator<Item = Box<dyn Task>>,
) {
    let begun = execute(conn, "BEGIN");
    let tx = Tx::new(conn, statements, clock.now());
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
    if !conn.is_autocommit()
        && let Err(error) = execute(conn, "ROLLBACK")
    {
        tracing::warn!(%error, "cannot end a read of the database");
    }
}

fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<usize> {
    conn.prepare_cached(sql)?.execute([])
}
