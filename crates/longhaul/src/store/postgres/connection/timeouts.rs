//! Limits on waiting for the database.
//!
//! A connection can die without a word: a firewall forgets it, a proxy hangs, a host disappears. So every wait has a
//! limit, also behind a proxy that keeps answering TCP keepalives, and a connection that exceeds one is replaced.

use std::time::Duration;

use crate::store::postgres::connection::error::PgError;

/// Limits on waiting for the database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// For a connection from the pool, and for a new one. 5 s.
    pub(crate) connect: Duration,
    /// For the response to a statement. 12 s: longer than the server's own limit, so that a slow statement ends with an
    /// error of the server, and only a dead connection with this limit.
    pub(crate) statement: Duration,
    /// For one use of the reserved connection. 4 s, because the next renewal is due soon.
    pub(crate) reserved: Duration,
    /// For the response to a check of a connection. 2 s.
    pub(crate) check: Duration,
    /// Time after which a connection of the pool is checked before it is used again. 1 s, so that a busy pool needs no
    /// checks.
    pub(crate) idle: Duration,
    /// Interval between checks of the connection for notifications, which only reads. 5 s.
    pub(crate) listen_check_interval: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            statement: Duration::from_secs(12),
            reserved: Duration::from_secs(4),
            check: Duration::from_secs(2),
            idle: Duration::from_secs(1),
            listen_check_interval: Duration::from_secs(5),
        }
    }
}

impl Timeouts {
    /// Returns limits that are shorter by this factor.
    #[cfg(feature = "failpoints")]
    pub(crate) fn divided_by(self, divisor: u32) -> Self {
        Self {
            connect: self.connect / divisor,
            statement: self.statement / divisor,
            reserved: self.reserved / divisor,
            check: self.check / divisor,
            idle: self.idle / divisor,
            listen_check_interval: self.listen_check_interval / divisor,
        }
    }
}

/// Waits for a response of the database, but not longer than `limit`.
pub(crate) async fn within<T, E: Into<PgError>>(
    limit: Duration,
    response: impl Future<Output = Result<T, E>>,
) -> Result<T, PgError> {
    match tokio::time::timeout(limit, response).await {
        Ok(response) => response.map_err(Into::into),
        Err(_) => Err(PgError::TimedOut),
    }
}
