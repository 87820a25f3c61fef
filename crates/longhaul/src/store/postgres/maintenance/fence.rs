//! Fencing of workers from before a restore of the database.

use crate::job::Timestamp;
use crate::store::StoreError;
use crate::store::postgres::connection::columns::int;
use crate::store::postgres::connection::database::query_unprepared;
use crate::store::postgres::connection::error::{PgError, to_store_error};
use crate::store::postgres::{Inner, PostgresStore, sql};
use crate::store::stored_job::{EPOCHS_PER_RESTORE, StoredJob};

/// Locks the tables of claims before it reads a lease, so that no claim uses an epoch from before it was raised. No
/// timeout, because a restored database may have millions of jobs.
const BEGIN: &str = "
    BEGIN;
    SET LOCAL statement_timeout = 0;
    LOCK TABLE longhaul.ready, longhaul.leases, longhaul.shared_leases IN ACCESS EXCLUSIVE MODE";
/// Number of attempts that are released in one transaction.
const RELEASED_MAX: usize = 500;

impl PostgresStore {
    /// Prepares a database for use after it was restored from a backup: raises all epochs, so that workers from before the
    /// restore can write nothing, and releases their jobs without a charged attempt. Returns the number of these jobs.
    ///
    /// Run it before a replica starts. It may be repeated.
    pub async fn fence(&self) -> Result<u64, StoreError> {
        // Not retried: the operator repeats the command, and each repetition raises the epochs again.
        self.inner.raise_epochs().await.map_err(to_store_error)?;
        self.inner.release_restored().await
    }
}

impl Inner {
    async fn raise_epochs(&self) -> Result<(), PgError> {
        let client = self.database.dedicated_connection().await?;
        client.batch_execute(BEGIN).await?;
        query_unprepared(&client, sql::SPLIT_ALL_LEASES, &[]).await?;
        let raised = int(EPOCHS_PER_RESTORE);
        for raise in [sql::RAISE_JOB_EPOCHS, sql::RAISE_LEASE_EPOCHS, sql::RAISE_FINISHED_EPOCHS] {
            query_unprepared(&client, raise, &[&raised]).await?;
        }
        query_unprepared(&client, sql::FORGET_REPLICAS, &[&i64::MAX]).await?;
        Ok(client.batch_execute("COMMIT").await?)
    }

    async fn release_restored(&self) -> Result<u64, StoreError> {
        let mut count = 0;
        loop {
            let released = retrying!(self.end_leases(
                RELEASED_MAX,
                Timestamp::MAX,
                StoredJob::release_restored
            ))?;
            if released.is_empty() {
                return Ok(count);
            }
            count += released.len() as u64;
        }
    }
}
