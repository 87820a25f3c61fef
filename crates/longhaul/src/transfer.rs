//! Transfer of all data from a SQLite store to a Postgres store, for operators who started with a
//! file and now need several machines.
//!
//! Copies page by page, in the order of ids. Data that is already in the target is compared and not
//! sent again, so that an interrupted transfer continues when it is repeated. Finally everything is
//! read back from both stores and compared. There is no transfer in the other direction.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use sha2::{Digest as _, Sha256};

use crate::job::{JobId, Name, TenantId};
use crate::store::postgres::{PostgresStore, fit_for_postgres};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::transfer::{Cursor, ExportPage};
use crate::store::transfer::{ExportedJob, hex};
use crate::store::{JobStore as _, ReplicaStore as _, StoreError};

/// Maximum number of jobs that an error lists.
const LISTED_JOBS_MAX: usize = 10;

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
    /// Tombstones of deleted jobs.
    pub tombstones: u64,
    /// Paused queues.
    pub paused_queues: u64,
    /// Rows of hourly usage, by tenant, kind and API key.
    pub usage: u64,
    /// Digests of the compared data, by tenant.
    pub tenants: BTreeMap<TenantId, TenantDigest>,
}

/// Digest of one tenant's data, equal in both stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantDigest {
    /// Number of jobs.
    pub jobs: u64,
    /// Number of finished steps.
    pub steps: u64,
    /// SHA-256 of all jobs, in the order of their ids, in hexadecimal.
    pub sha256: String,
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
    /// The target has fewer tombstones than the source.
    #[error("{missing} ids of deleted jobs are missing in the target")]
    TombstonesMissing {
        /// Number of missing tombstones.
        missing: u64,
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

fn join_ids(jobs: &[(TenantId, JobId)]) -> String {
    let named: Vec<String> = jobs.iter().map(|(tenant, id)| format!("{tenant}/{id}")).collect();
    named.join(", ")
}

/// Copies everything. Both stores must belong to this caller alone: opening the file ensures that,
/// and live servers on the target are rejected. `on_progress` is called after each page and can
/// stop the transfer.
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
    // First, so that a server that starts too early does not run jobs of paused queues.
    let paused_queues = pause_queues(from, to).await?;
    let tombstones = copy_tombstones(from, to).await?;
    let usage = copy_usage(from, to).await?;
    let tenants = BTreeMap::new();
    let mut copied =
        TransferSummary { jobs: 0, known: 0, tombstones, paused_queues, usage, tenants };
    let mut unreadable = Vec::new();
    let mut pages = Pages::of(from);
    while let Some(page) = pages.next().await? {
        let (jobs, known) = copy_page(to, &page).await?;
        copied.jobs += jobs;
        copied.known += known;
        unreadable.extend(page.unreadable.iter().map(|(tenant, id)| format!("{tenant}/{id}")));
        report_progress(
            &mut on_progress,
            TransferStage::Copying,
            copied.jobs + copied.known,
            total,
        )?;
    }
    copied.tenants = check(from, to, total, &mut on_progress).await?;
    to.import_ended().await.map_err(TransferError::Target)?;
    if unreadable.is_empty() {
        Ok(copied)
    } else {
        Err(TransferError::Unreadable { jobs: unreadable })
    }
}

fn report_progress(
    on_progress: &mut impl FnMut(TransferProgress) -> ControlFlow<()>,
    stage: TransferStage,
    done: u64,
    total: u64,
) -> Result<(), TransferError> {
    match on_progress(TransferProgress { stage, done, total }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(TransferError::Interrupted),
    }
}

struct Pages<'a> {
    from: &'a SqliteStore,
    next: Option<Cursor>,
}

impl<'a> Pages<'a> {
    fn of(from: &'a SqliteStore) -> Self {
        Self { from, next: Some(Cursor::default()) }
    }

    /// Returns the next page, with jobs converted to what the target can store.
    async fn next(&mut self) -> Result<Option<ExportPage>, TransferError> {
        let Some(after) = self.next.take() else { return Ok(None) };
        let mut page = self.from.export_jobs(after).await.map_err(TransferError::Source)?;
        self.next = page.next.take();
        page.parcels = page.parcels.into_iter().map(fit_for_postgres).collect();
        Ok(self.next.is_some().then_some(page))
    }
}

/// Copies missing jobs. Returns how many were copied and how many existed.
async fn copy_page(to: &PostgresStore, page: &ExportPage) -> Result<(u64, u64), TransferError> {
    let there = compare(to, &page.parcels).await?;
    there.refuse_differing()?;
    let missing = |parcel: &&ExportedJob| there.missing.contains(&parcel.key());
    let new: Vec<ExportedJob> = page.parcels.iter().filter(missing).cloned().collect();
    if !new.is_empty() {
        let taken = to.import_jobs(&new).await.map_err(TransferError::Target)?;
        let keys = new.iter().map(ExportedJob::key).filter(|key| !taken.contains(key));
        let refused: Vec<_> = keys.collect();
        if !refused.is_empty() {
            let (count, jobs) = first_of(refused);
            return Err(TransferError::Refused { count, jobs });
        }
    }
    Ok((new.len() as u64, (page.parcels.len() - new.len()) as u64))
}

fn first_of(mut jobs: Vec<(TenantId, JobId)>) -> (u64, Vec<(TenantId, JobId)>) {
    let count = jobs.len() as u64;
    jobs.truncate(LISTED_JOBS_MAX);
    (count, jobs)
}

#[derive(Default)]
struct Comparison {
    missing: Vec<(TenantId, JobId)>,
    differing: Vec<(TenantId, JobId)>,
}

impl Comparison {
    fn refuse_differing(&self) -> Result<(), TransferError> {
        if self.differing.is_empty() {
            return Ok(());
        }
        let (count, jobs) = first_of(self.differing.clone());
        Err(TransferError::Differs { count, jobs })
    }
}

async fn compare(to: &PostgresStore, parcels: &[ExportedJob]) -> Result<Comparison, TransferError> {
    let keys: Vec<_> = parcels.iter().map(ExportedJob::key).collect();
    let there = to.export_jobs(&keys).await.map_err(TransferError::Target)?;
    let mut found = Comparison::default();
    for (parcel, key) in parcels.iter().zip(keys) {
        match there.get(&key) {
            None => found.missing.push(key),
            Some(there) if there.digest() != parcel.digest() => found.differing.push(key),
            Some(_) => {}
        }
    }
    Ok(found)
}

/// Reads everything back from both stores and compares it.
async fn check(
    from: &SqliteStore,
    to: &PostgresStore,
    total: u64,
    on_progress: &mut impl FnMut(TransferProgress) -> ControlFlow<()>,
) -> Result<BTreeMap<TenantId, TenantDigest>, TransferError> {
    let mut tenants: BTreeMap<TenantId, (u64, u64, Sha256)> = BTreeMap::new();
    let (mut wrong, mut done) = (Comparison::default(), 0);
    let mut pages = Pages::of(from);
    while let Some(page) = pages.next().await? {
        let found = compare(to, &page.parcels).await?;
        wrong.differing.extend(found.missing);
        wrong.differing.extend(found.differing);
        for parcel in &page.parcels {
            let (jobs, steps, hash) = tenants.entry(parcel.key().0).or_default();
            *jobs += 1;
            *steps += parcel.steps() as u64;
            hash.update(parcel.digest());
        }
        done += page.parcels.len() as u64;
        report_progress(on_progress, TransferStage::Checking, done, total)?;
    }
    wrong.refuse_differing()?;
    let checked = |(jobs, steps, hash): (u64, u64, Sha256)| TenantDigest {
        jobs,
        steps,
        sha256: hex(&hash.finalize()),
    };
    Ok(tenants.into_iter().map(|(tenant, sums)| (tenant, checked(sums))).collect())
}

async fn pause_queues(from: &SqliteStore, to: &PostgresStore) -> Result<u64, TransferError> {
    let paused = from.export_paused_queues().await.map_err(TransferError::Source)?;
    for (tenant, queue) in &paused {
        // An invalid name cannot belong to a queue.
        if let (Ok(tenant), Ok(queue)) = (TenantId::new(tenant), Name::new(queue)) {
            to.pause_queue(&tenant, &queue, true).await.map_err(TransferError::Target)?;
        }
    }
    Ok(paused.len() as u64)
}

/// Copies usage under the file's name, so that a second run replaces what the first one copied.
async fn copy_usage(from: &SqliteStore, to: &PostgresStore) -> Result<u64, TransferError> {
    let origin = from.origin().await.map_err(TransferError::Source)?;
    let (mut after, mut all) = (None, 0);
    loop {
        let used = from.export_usage(after).await.map_err(TransferError::Source)?;
        if used.is_empty() {
            return Ok(all);
        }
        all += to.import_usage(&origin, &used).await.map_err(TransferError::Target)?;
        after = used.last().cloned();
    }
}

async fn copy_tombstones(from: &SqliteStore, to: &PostgresStore) -> Result<u64, TransferError> {
    let (mut after, mut all) = (Cursor::default(), 0);
    loop {
        let gone = from.export_tombstones(after).await.map_err(TransferError::Source)?;
        let Some(last) = gone.last() else { return Ok(all) };
        after = (last.tenant.clone(), last.id.clone());
        let known = to.import_tombstones(&gone).await.map_err(TransferError::Target)?;
        let missing = (gone.len() as u64).saturating_sub(known);
        if missing > 0 {
            return Err(TransferError::TombstonesMissing { missing });
        }
        all += known;
    }
}
