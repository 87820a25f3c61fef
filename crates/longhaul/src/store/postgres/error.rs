//! From Postgres' errors to what the caller can do about them.

use std::time::Duration;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::job::Retry;
use crate::store::StoreError;

/// How often and how soon a transaction is tried again. Short: a caller waits, and has its own
/// patience.
const TRIES: Retry =
    Retry { max_attempts: 5, first: Duration::from_millis(20), max: Duration::from_millis(500) };

/// Why a transaction did not happen, or why nobody knows whether it did.
#[derive(Debug)]
pub(super) enum Trouble {
    /// An answer like any other.
    Refused(StoreError),
    /// What Postgres said, or that it said nothing.
    Database(tokio_postgres::Error),
    /// There was no connection to be had.
    NoConnection(String),
    /// Postgres did not answer in time.
    TimedOut,
    /// The database holds what this program never wrote.
    Unreadable(String),
    /// What was read has changed before it was written.
    Overtaken,
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<PoolError> for Trouble {
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

impl Trouble {
    /// Whether the connection is of no use any more.
    pub(super) fn is_fatal_to_connection(&self) -> bool {
        match self {
            Self::Database(error) => {
                error.is_closed() || error.code().is_none() || is_of_a_shared_session(error) || {
                    // A view was replaced by a newer version of this program: statements that were
                    // prepared before no longer fit.
                    error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED)
                }
            }
            Self::TimedOut => true,
            Self::Refused(_) | Self::NoConnection(_) | Self::Unreadable(_) | Self::Overtaken => {
                false
            }
        }
    }

    /// Whether the same again may go well.
    fn is_transient(&self) -> bool {
        match self {
            Self::Database(error) => match error.code() {
                Some(code) => is_transient(code),
                // The line was cut, or not even made.
                None => true,
            },
            Self::NoConnection(_) | Self::Overtaken => true,
            // The caller has waited long enough.
            Self::TimedOut | Self::Refused(_) | Self::Unreadable(_) => false,
        }
    }
}

/// Whether a prepared statement of ours met somebody else's session.
pub(super) fn is_of_a_shared_session(error: &tokio_postgres::Error) -> bool {
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
        SqlState::FEATURE_NOT_SUPPORTED,
        // Behind a pooler that was not noticed before: from now on nothing is prepared.
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
        // A standby that has not been promoted yet.
        SqlState::READ_ONLY_SQL_TRANSACTION,
    ]
    .contains(code)
}

/// Counts the tries of one call.
#[derive(Default)]
pub(super) struct Tries(u32);

impl Tries {
    /// Returns, after a pause with jitter, if it is worth trying again.
    pub(super) async fn again(&mut self, trouble: Trouble) -> Result<(), StoreError> {
        self.0 += 1;
        if self.0 >= TRIES.max_attempts || !trouble.is_transient() {
            return Err(to_store_error(trouble));
        }
        tracing::debug!(?trouble, tries = self.0, "a transaction is tried again");
        tokio::time::sleep(TRIES.delay(self.0, rand::random())).await;
        Ok(())
    }
}

/// What trouble means to whoever called.
pub(super) fn to_store_error(trouble: Trouble) -> StoreError {
    match trouble {
        Trouble::Refused(error) => error,
        Trouble::Database(error) => from_database(&error),
        Trouble::NoConnection(why) => {
            StoreError::Unavailable(format!("no connection to Postgres: {why}"))
        }
        Trouble::TimedOut => StoreError::Unavailable("Postgres did not answer in time".to_owned()),
        Trouble::Unreadable(what) => {
            StoreError::Unavailable(format!("a row cannot be read: {what}"))
        }
        Trouble::Overtaken => {
            StoreError::Unavailable("others changed the same job again and again".to_owned())
        }
    }
}

fn from_database(error: &tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(&SqlState::DISK_FULL) => StoreError::StorageFull,
        _ => StoreError::Unavailable(describe(error)),
    }
}

/// What Postgres said, without the values that it may quote in its details.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} ({})", said.message(), said.code().code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}
