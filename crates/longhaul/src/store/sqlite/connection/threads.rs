//! Threads that run tasks.

use std::io;
use std::thread::{self, JoinHandle};

use tokio::sync::mpsc;

use crate::store::StoreError;
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::{Task, Tx, call};

/// A queue of tasks and the threads that run them, each with its own connection. Dropping it runs the queued
/// tasks, then closes the connections.
pub(crate) struct TaskThreads {
    /// `writer` or `reader`.
    role: &'static str,
    tasks: Option<mpsc::Sender<Box<dyn Task>>>,
    threads: Vec<JoinHandle<()>>,
}

impl TaskThreads {
    pub(crate) fn new(role: &'static str, tasks: mpsc::Sender<Box<dyn Task>>) -> Self {
        Self { role, tasks: Some(tasks), threads: Vec::new() }
    }

    /// Starts a thread, which must end when the queue is closed.
    pub(crate) fn spawn(&mut self, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let name = format!("longhaul-{}", self.role);
        self.threads.push(thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }

    /// Runs `body` in a transaction. Returns once a write is committed and synced.
    pub(crate) async fn call<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T, SqliteError> + Send + 'static,
    {
        let (task, answer) = call(body);
        self.send(task).await?;
        answer.await.map_err(|_| self.stopped())?
    }

    /// Queues a task. Its result is sent over its own channel.
    pub(crate) async fn send(&self, task: Box<dyn Task>) -> Result<(), StoreError> {
        match &self.tasks {
            Some(tasks) => tasks.send(task).await.map_err(|_| self.stopped()),
            None => Err(self.stopped()),
        }
    }

    /// Creates the error for a call after the threads have stopped.
    pub(crate) fn stopped(&self) -> StoreError {
        StoreError::Broken(format!("the database {} thread has stopped", self.role))
    }
}

impl Drop for TaskThreads {
    fn drop(&mut self) {
        self.tasks = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("the database {} thread panicked", self.role);
            }
        }
    }
}
