//! Transfer of all data from a SQLite store to a Postgres store, for operators who started with a
//! file and now need several machines.
//!
//! The target must be empty, or hold a part of this transfer. Copies page by page, in the order of keys: first the
//! tables whose rows are the same in both stores, then the jobs. Data that is already in the target is compared and not
//! sent again, so that an interrupted transfer continues when it is repeated. Finally everything is read back from both
//! stores and compared. There is no transfer in the other direction.

mod jobs;
#[cfg(all(feature = "blobs", feature = "server"))]
mod server_keys;
mod tables;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;

use crate::job::{JobId, TenantId};
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::SqliteStore;
use crate::store::transfer::TransferTable;
use crate::store::{ReplicaStore as _, StoreError};

#[cfg(all(feature = "blobs", feature = "server"))]
pub use server_keys::ServerKeyUses;

/// Tables of the source that are copied as parts of the jobs.
pub const JOB_TABLES: [&str; 4] = ["jobs", "inputs", "finished", "steps"];

/// Tables of the source that are not copied, each with the reason.
pub const LEFT_OUT: [(&str, &str); 4] = [
    ("leases", "running jobs return to their queues"),
    ("ready", "the target builds its queues from the jobs"),
    ("replicas", "no process of the source is running"),
    ("origin", "the id of the file, which is copied with each row of usage"),
];

/// Stage of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferStage {
    /// Jobs are copied.
    Copying,
    /// The copies are compared with the source.
    Checking,
}

/// Progress of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferProgress {
    /// The current stage.
    pub stage: TransferStage,
    /// Jobs done in this stage.
    pub done: u64,
    /// Jobs in total.
    pub total: u64,
}

/// Result of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferSummary {
    /// Jobs copied by this run.
    pub jobs: u64,
    /// Jobs copied by an earlier run.
    pub known: u64,
    /// Digests of the jobs, by tenant.
    pub tenants: BTreeMap<TenantId, TenantDigest>,
    /// Digests of the other tables.
    pub tables: Vec<TableDigest>,
    /// Server keys that the copied data depends on, by id.
    #[cfg(all(feature = "blobs", feature = "server"))]
    pub server_keys: BTreeMap<String, ServerKeyUses>,
}

/// Digest of one tenant's jobs, equal in both stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantDigest {
    /// Number of jobs.
    pub jobs: u64,
    /// Number of finished steps.
    pub steps: u64,
    /// SHA-256 of all jobs, in the order of their ids, in hexadecimal.
    pub sha256: String,
}

/// Digest of a table, equal in both stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDigest {
    /// Name of the table.
    pub name: &'static str,
    /// Number of rows.
    pub rows: u64,
    /// SHA-256 of all rows, in the order of their keys, in hexadecimal.
    pub sha256: String,
}

/// Rows of one table that are not the same in both stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDifference {
    /// Name of the table.
    pub name: &'static str,
    /// Number of rows that only the source has.
    pub missing: u64,
    /// Number of rows with different contents.
    pub differing: u64,
    /// Number of rows that only the target has.
    pub foreign: u64,
    /// Keys of the first of these rows.
    pub rows: Vec<String>,
}

impl fmt::Display for TableDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, missing, differing, foreign, rows } = self;
        write!(f, "{name}: ")?;
        let counts = [
            (foreign, "only in the target"),
            (differing, "different"),
            (missing, "missing in the target"),
        ];
        for (count, state) in counts.into_iter().filter(|(count, _)| **count > 0) {
            write!(f, "{count} {state}, ")?;
        }
        write!(f, "for example {}", rows.join(", "))
    }
}

/// Reasons why a transfer stops. Repeating it continues where it stopped.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// Stop the servers of the target, and start them again after the transfer.
    #[error("a server ({replica}) runs on the target: its jobs would run before all is copied")]
    TargetInUse {
        /// Name of the replica.
        replica: String,
    },
    /// Use an empty database. Nothing was written.
    #[error(
        "the target has data that is not from this source, or one of them was used after an earlier copy \
         ({}); copy to an empty database", join(.tables)
    )]
    OtherData {
        /// The tables with such rows.
        tables: Vec<TableDifference>,
    },
    /// Use another database, or find out what wrote to this one.
    #[error(
        "{count} jobs are in the target with another content, or went on there: {}", join_ids(.jobs)
    )]
    Differs {
        /// Number of jobs.
        count: u64,
        /// The first of them.
        jobs: Vec<(TenantId, JobId)>,
    },
    /// Find out what wrote to the target while the transfer ran.
    #[error("the copy is not the same as the source ({})", join(.tables))]
    RowsDiffer {
        /// The tables with such rows.
        tables: Vec<TableDifference>,
    },
    /// Use another database.
    #[error(
        "{count} jobs cannot be copied, because their idempotency keys belong to other jobs in the \
         target, or because they were deleted there: {}", join_ids(.jobs)
    )]
    Refused {
        /// Number of jobs.
        count: u64,
        /// The first of them.
        jobs: Vec<(TenantId, JobId)>,
    },
    /// All other jobs were copied. Check whether these are needed.
    #[error("{} jobs cannot be read and were not copied: {}", .jobs.len(), .jobs.join(", "))]
    Unreadable {
        /// Tenants and ids.
        jobs: Vec<String>,
    },
    /// `on_progress` stopped the transfer.
    #[error("the copy was interrupted; run it again to go on")]
    Interrupted,
    /// The SQLite file cannot be read.
    #[error("the source: {0}")]
    Source(#[source] StoreError),
    /// The Postgres database cannot be written.
    #[error("the target: {0}")]
    Target(#[source] StoreError),
}

fn join(tables: &[TableDifference]) -> String {
    let named: Vec<String> = tables.iter().map(TableDifference::to_string).collect();
    named.join("; ")
}

fn join_ids(jobs: &[(TenantId, JobId)]) -> String {
    let named: Vec<String> = jobs.iter().map(|(tenant, id)| format!("{tenant}/{id}")).collect();
    named.join(", ")
}

/// Copies everything. Both stores must belong to this caller alone: opening the file ensures that,
/// and live servers on the target are rejected. `on_progress` is called after the tables and after each page of jobs,
/// and can stop the transfer.
pub async fn sqlite_to_postgres(
    from: &SqliteStore,
    to: &PostgresStore,
    mut on_progress: impl FnMut(TransferProgress) -> ControlFlow<()>,
) -> Result<TransferSummary, TransferError> {
    let replicas = to.replicas().await.map_err(TransferError::Target)?;
    if let Some(alive) = replicas.into_iter().find(|replica| replica.alive) {
        return Err(TransferError::TargetInUse { replica: alive.heartbeat.replica });
    }
    let total = from.export_count().await.map_err(TransferError::Source)?;
    tables::refuse_other_data(from, to).await?;
    for table in TransferTable::COPIED {
        tables::copy(from, to, table).await?;
    }
    let copied = jobs::copy(from, to, total, &mut on_progress).await?;
    let tenants = jobs::check(from, to, total, &mut on_progress).await?;
    let checked = tables::check(from, to).await?;
    to.import_ended().await.map_err(TransferError::Target)?;
    if !copied.unreadable.is_empty() {
        return Err(TransferError::Unreadable { jobs: copied.unreadable });
    }
    Ok(TransferSummary {
        jobs: copied.jobs,
        known: copied.known,
        tenants,
        tables: checked.tables,
        #[cfg(all(feature = "blobs", feature = "server"))]
        server_keys: checked.server_keys.into_uses(),
    })
}
