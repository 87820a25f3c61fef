//! Reader threads, each with its own connection, so that a long list delays neither the writer nor the
//! other reader.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::store::sqlite::connection::error::to_store_error;
use crate::store::sqlite::connection::task::{Task, TaskOutcome, Tx};
use crate::store::sqlite::connection::threads::TaskThreads;

/// Maximum number of queued reads. Further callers wait.
const TASKS_QUEUED_MAX: usize = 1_024;

/// One queue shared by all threads: an idle thread takes the next task.
type Queue = Arc<Mutex<mpsc::Receiver<Box<dyn Task>>>>;

/// Starts a thread for each connection.
pub(crate) fn start(conns: Vec<Connection>, clock: &Clock) -> io::Result<TaskThreads> {
    let (tasks, queue) = mpsc::channel(TASKS_QUEUED_MAX);
    let queue = Arc::new(Mutex::new(queue));
    let mut threads = TaskThreads::new("reader", tasks);
    for conn in conns {
        let (queue, clock) = (Arc::clone(&queue), clock.clone());
        threads.spawn(move || serve(&conn, &clock, &queue))?;
    }
    Ok(threads)
}

fn serve(conn: &Connection, clock: &Clock, queue: &Queue) {
    loop {
        // Locked while waiting: the other threads wait for the lock instead of the channel.
        let task = queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(task) = task else { return };
        read(conn, clock, task);
    }
}

fn read(conn: &Connection, clock: &Clock, mut task: Box<dyn Task>) {
    // Several statements make one result, so they must see one state of the database.
    let snapshot = match conn.unchecked_transaction() {
        Ok(snapshot) => snapshot,
        Err(error) => return task.fail(to_store_error(&error)),
    };
    let ran = task.run(&Tx::new(conn, clock.now()));
    // Nothing was written, so ending the transaction cannot change the result.
    drop(snapshot);
    match ran {
        TaskOutcome::Done | TaskOutcome::Rejected => task.answer(),
        TaskOutcome::Failed(error) => task.fail(to_store_error(&error)),
    }
}
