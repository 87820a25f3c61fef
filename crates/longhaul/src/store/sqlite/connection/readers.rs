//! Reader threads, each with its own connection, so that a long list delays neither the writer nor the
//! other reader.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::store::StoreError;
use crate::store::sqlite::connection::error::{SqliteError, to_store_error};
use crate::store::sqlite::connection::task::{Task, TaskOutcome, Tx, call};

/// Maximum number of queued reads. Further callers wait.
const TASKS_QUEUED_MAX: usize = 1_024;

/// One queue shared by all threads: an idle thread takes the next task.
type Queue = Arc<Mutex<mpsc::Receiver<Box<dyn Task>>>>;

/// A handle to the reader threads. Dropping it runs the queued tasks, then closes the connections.
pub(crate) struct Readers {
    tasks: Option<mpsc::Sender<Box<dyn Task>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(conns: Vec<Connection>, clock: &Clock) -> io::Result<Self> {
        let (tasks, queue) = mpsc::channel(TASKS_QUEUED_MAX);
        let queue = Arc::new(Mutex::new(queue));
        let mut readers = Self { tasks: Some(tasks), threads: Vec::new() };
        for conn in conns {
            let (queue, clock) = (Arc::clone(&queue), clock.clone());
            let thread = thread::Builder::new()
                .name("longhaul-reader".to_owned())
                .spawn(move || serve(&conn, &clock, &queue))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Runs `body` on a snapshot of the database.
    pub(crate) async fn call<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        let (task, answer) = call(body);
        match &self.tasks {
            Some(tasks) => tasks.send(task).await.map_err(|_| gone())?,
            None => return Err(gone()),
        }
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // The threads end when the channel closes.
        self.tasks = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that reads from the database had panicked");
            }
        }
    }
}

fn gone() -> StoreError {
    StoreError::Broken("the threads that read from the database have stopped".to_owned())
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
