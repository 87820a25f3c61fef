//! Connections outside of the pool, and the one that is reserved for lease renewals and heartbeats.

use std::ops::Deref;
use std::sync::Arc;

use tokio::task::AbortHandle;
use tokio_postgres::Client;

use crate::metrics;
use crate::store::postgres::connection::database::PgDatabase;
use crate::store::postgres::connection::error::PgError;
use crate::sync::Mutex;

/// A connection outside of the pool. Closed when dropped, also if the server no longer responds.
pub(crate) struct DedicatedConnection {
    client: Client,
    /// The task that reads and writes. It would wait for outstanding responses for ever.
    driver: AbortHandle,
}

impl DedicatedConnection {
    pub(crate) fn new(client: Client, driver: AbortHandle) -> Self {
        Self { client, driver }
    }
}

impl Deref for DedicatedConnection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for DedicatedConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Connection for lease renewals and heartbeats, so that no lease expires because the pool is busy.
///
/// Concurrent uses share it: their statements are pipelined, each a transaction of its own. So a heartbeat that waits for a
/// dead connection does not keep a renewal from opening a new one.
#[derive(Default)]
pub(crate) struct ReservedConnection(Mutex<Option<Arc<DedicatedConnection>>>);

/// One use of the reserved connection. Unless it is [finished](Self::finish), the connection is closed, because its state is
/// unknown, for example after a timeout.
pub(crate) struct ReservedUse<'a> {
    reserved: &'a ReservedConnection,
    connection: Arc<DedicatedConnection>,
    is_finished: bool,
}

impl ReservedConnection {
    /// Returns the connection, or a new one if it was lost. A new one is driven by the calling thread.
    pub(crate) async fn acquire(&self, database: &PgDatabase) -> Result<ReservedUse<'_>, PgError> {
        let current = self.0.lock().clone();
        if let Some(connection) = current.filter(|connection| !self.remove_closed(connection)) {
            return Ok(ReservedUse { reserved: self, connection, is_finished: false });
        }
        // Boxed, because it is large and rare.
        let connection = Arc::new(Box::pin(database.dedicated_connection()).await?);
        *self.0.lock() = Some(Arc::clone(&connection));
        Ok(ReservedUse { reserved: self, connection, is_finished: false })
    }

    /// Removes a connection that was closed. Returns whether it was.
    fn remove_closed(&self, connection: &Arc<DedicatedConnection>) -> bool {
        let is_closed = connection.is_closed();
        if is_closed {
            self.remove(connection);
        }
        is_closed
    }

    fn remove(&self, connection: &Arc<DedicatedConnection>) {
        let mut current = self.0.lock();
        // Another use may have replaced it already.
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *current = None;
            drop(current);
            metrics::connection_dropped();
        }
    }
}

impl ReservedUse<'_> {
    /// Ends this use. Keeps the connection unless the result is an error of it.
    pub(crate) fn finish<T>(mut self, result: Result<T, PgError>) -> Result<T, PgError> {
        self.is_finished = !result.as_ref().is_err_and(PgError::is_fatal_to_connection);
        result
    }
}

impl Deref for ReservedUse<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.connection
    }
}

impl Drop for ReservedUse<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.reserved.remove(&self.connection);
        }
    }
}
