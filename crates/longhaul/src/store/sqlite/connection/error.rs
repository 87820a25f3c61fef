//! Mapping of SQLite errors by the caller's remedy.

use rusqlite::{ErrorCode, ffi};

use crate::store::StoreError;

/// An error inside a transaction.
#[derive(Debug)]
pub(crate) enum SqliteError {
    /// A rejection of this call. It does not affect the other calls of the transaction.
    Rejected(StoreError),
    /// An unexpected database error.
    Database(rusqlite::Error),
}

impl From<StoreError> for SqliteError {
    fn from(error: StoreError) -> Self {
        Self::Rejected(error)
    }
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Maps a database error to the error of the caller.
pub(crate) fn to_store_error(error: &rusqlite::Error) -> StoreError {
    let Some(cause) = error.sqlite_error() else {
        return StoreError::Unavailable(error.to_string());
    };
    // A full disk is reported first when the index of the write-ahead log grows.
    let is_full =
        cause.code == ErrorCode::DiskFull || cause.extended_code == ffi::SQLITE_IOERR_SHMSIZE;
    let is_broken = [
        ErrorCode::SystemIoFailure,
        ErrorCode::DatabaseCorrupt,
        ErrorCode::NotADatabase,
        ErrorCode::CannotOpen,
        ErrorCode::ReadOnly,
    ]
    .contains(&cause.code);
    if cause.code == ErrorCode::OperationInterrupted {
        let reason = "the read took too long and was interrupted, so that the write-ahead log can be truncated; \
                      repeat it, or read less at a time";
        StoreError::Unavailable(reason.to_owned())
    } else if is_full {
        StoreError::StorageFull
    } else if is_broken {
        StoreError::Broken(error.to_string())
    } else {
        StoreError::Unavailable(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(extended_code: std::ffi::c_int) -> StoreError {
        let cause = ffi::Error::new(extended_code);
        to_store_error(&rusqlite::Error::SqliteFailure(cause, None))
    }

    #[test]
    fn full_disk_is_transient_and_failed_sync_is_not() {
        assert_eq!(of(ffi::SQLITE_FULL), StoreError::StorageFull);
        assert_eq!(of(ffi::SQLITE_IOERR_SHMSIZE), StoreError::StorageFull);
        for broken in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_CORRUPT] {
            assert!(matches!(of(broken), StoreError::Broken(_)));
        }
        for busy in [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED] {
            assert!(matches!(of(busy), StoreError::Unavailable(_)));
        }
    }
}
