//! Errors of Postgres: their retries, and their mapping for callers.

use std::io;
use std::time::Duration;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::job::Retry;
use crate::store::StoreError;

/// Retries of a transaction. Short, because a caller waits and retries by itself.
const RETRY_POLICY: Retry =
    Retry { max_attempts: 5, first: Duration::from_millis(20), max: Duration::from_millis(500) };

/// States of a server that passes.
const UNREACHABLE: [SqlState; 4] = [
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
    SqlState::TOO_MANY_CONNECTIONS,
];

/// An error of a transaction, which may have been committed nevertheless.
#[derive(Debug)]
pub(crate) enum PgError {
    /// A result of the store's contract, for example "not found".
    Store(StoreError),
    /// An error reported by Postgres, or of the connection.
    Database(tokio_postgres::Error),
    /// No connection is available.
    NoConnection(String),
    /// The statement took too long.
    TimedOut,
    /// The database contains a value that this program never wrote.
    Unreadable(String),
    /// A row changed between read and write.
    Conflict,
}

impl From<StoreError> for PgError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<PoolError> for PgError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::NoConnection(describe(&error)),
            PoolError::Timeout(_)
            | PoolError::Closed
            | PoolError::NoRuntimeSpecified
            | PoolError::PostCreateHook(_) => Self::NoConnection(error.to_string()),
        }
    }
}

impl PgError {
    /// Returns whether the connection cannot be used any more.
    pub(crate) fn is_fatal_to_connection(&self) -> bool {
        match self {
            Self::Database(error) => {
                error.is_closed() || error.code().is_none() || is_pooled_session_error(error) || {
                    // A newer version replaced a view, so cached statements no longer fit.
                    error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED)
                }
            }
            Self::TimedOut => true,
            Self::Store(_) | Self::NoConnection(_) | Self::Unreadable(_) | Self::Conflict => false,
        }
    }

    /// Returns whether the server may be reached later: it is down, starting, full or beyond a network that fails. Wrong
    /// credentials and certificates do not improve with time.
    pub(crate) fn is_unreachable(&self) -> bool {
        match self {
            Self::Database(error) => match error.code() {
                // Class 08 are connection exceptions; pgbouncer reports with one that its server is down.
                Some(code) => UNREACHABLE.contains(code) || code.code().starts_with("08"),
                None => error.is_closed() || io_error(error).is_some_and(may_pass),
            },
            Self::NoConnection(_) | Self::TimedOut => true,
            Self::Store(_) | Self::Unreadable(_) | Self::Conflict => false,
        }
    }

    /// Returns whether a row with the same key exists.
    pub(crate) fn is_unique_violation(&self) -> bool {
        matches!(self, Self::Database(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION))
    }

    /// Returns whether a retry may succeed.
    fn is_transient(&self) -> bool {
        match self {
            Self::Database(error) => match error.code() {
                Some(code) => is_transient(code),
                // The connection was lost or refused.
                None => true,
            },
            Self::NoConnection(_) | Self::Conflict => true,
            // After a timeout the caller has waited long enough.
            Self::TimedOut | Self::Store(_) | Self::Unreadable(_) => false,
        }
    }
}

fn io_error(error: &tokio_postgres::Error) -> Option<&io::Error> {
    std::error::Error::source(error)?.downcast_ref()
}

/// Returns whether an error of the network may pass. TLS reports invalid certificates as invalid data.
fn may_pass(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::InvalidData
}

/// Returns whether a prepared statement met another client's session, behind a pooler.
pub(crate) fn is_pooled_session_error(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::INVALID_SQL_STATEMENT_NAME)
        || code == Some(&SqlState::DUPLICATE_PSTATEMENT)
}

fn is_transient(code: &SqlState) -> bool {
    [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::CONNECTION_FAILURE,
        SqlState::CONNECTION_EXCEPTION,
        SqlState::CONNECTION_DOES_NOT_EXIST,
        // This process was paused in the middle of a transaction, which the server has rolled back.
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::FEATURE_NOT_SUPPORTED,
        // Behind an undetected pooler. From now on, statements are not prepared.
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
        // A standby that is about to be promoted.
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ]
    .contains(code)
}

/// Counts the attempts of one call.
#[derive(Default)]
pub(crate) struct RetryState(u32);

impl RetryState {
    /// Returns true after a failed attempt, which may have been committed.
    pub(crate) fn is_retry(&self) -> bool {
        self.0 > 0
    }

    /// Waits with backoff before the next attempt, or returns the error if there should be none.
    pub(crate) async fn again(&mut self, error: PgError) -> Result<(), StoreError> {
        self.0 += 1;
        if self.0 >= RETRY_POLICY.max_attempts || !error.is_transient() {
            return Err(to_store_error(error));
        }
        tracing::debug!(?error, attempts = self.0, "retrying a transaction");
        tokio::time::sleep(RETRY_POLICY.delay(self.0, rand::random())).await;
        Ok(())
    }
}

/// Converts an error for callers of the store.
pub(crate) fn to_store_error(error: PgError) -> StoreError {
    match error {
        PgError::Store(error) => error,
        PgError::Database(error) => from_database(&error),
        PgError::NoConnection(why) => {
            StoreError::Unavailable(format!("no connection to Postgres: {why}"))
        }
        PgError::TimedOut => StoreError::Unavailable("Postgres did not respond in time".to_owned()),
        PgError::Unreadable(what) => {
            StoreError::Unavailable(format!("a row cannot be read: {what}"))
        }
        PgError::Conflict => {
            StoreError::Unavailable("the job was changed concurrently, again and again".to_owned())
        }
    }
}

fn from_database(error: &tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(&SqlState::DISK_FULL) => StoreError::StorageFull,
        _ => StoreError::Unavailable(describe(error)),
    }
}

/// Describes an error without the values that Postgres may quote in its details.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(reported) = error.as_db_error() {
        return format!("{} ({})", reported.message(), reported.code().code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}
