//! Copies everything that a SQLite store keeps into a Postgres store, once and for good: for whoever
//! began with a file and now needs several machines.
//!
//! Page by page, in the order of ids. What is there already is compared and not sent again, so that a copy
//! that was interrupted is continued by running it again. In the end everything is read back from both
//! stores and compared. The other direction does not exist.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use sha2::{Digest as _, Sha256};

use crate::job::{JobId, Name, TenantId};
use crate::store::postgres::{PostgresStore, fit_for_postgres};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::transfer::{Cursor, Page};
use crate::store::transfer::{ExportedJob, hex};
use crate::store::{JobStore as _, ReplicaStore as _, StoreError};

/// How many differing jobs are named.
const LISTED_JOBS_MAX: usize = 10;

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferStage {
    /// Jobs are copied.
    Copying,
    /// What was copied is compared.
    Checking,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferProgress {
    /// What is being done.
    pub stage: TransferStage,
    /// Jobs that this was done to.
    pub done: u64,
    /// Jobs that there are.
    pub total: u64,
}

/// What a copy did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferSummary {
    /// Jobs that were copied now.
    pub jobs: u64,
    /// Jobs that an earlier run had copied.
    pub known: u64,
    /// Ids that are remembered as gone.
    pub tombstones: u64,
    /// Queues that are paused.
    pub paused_queues: u64,
    /// Hours of usage, by tenant, kind and API key.
    pub usage: u64,
    /// What was compared in the end, by tenant.
    pub tenants: BTreeMap<TenantId, TenantDigest>,
}

/// What both stores were found to hold of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantDigest {
    /// Jobs.
    pub jobs: u64,
    /// Their finished steps.
    pub steps: u64,
    /// A digest of all of them, in the order of their ids, in hexadecimal.
    pub sha256: String,
}

/// Why a copy stopped. Running it again goes on where it was.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// Stop the servers there, and start them again when the copy is done.
    #[error("a server ({replica}) runs on the target: its jobs would run before all is copied")]
    TargetInUse {
        /// Its name.
        replica: String,
    },
    /// Use another database, or find out who wrote to this one.
    #[error(
        "{count} jobs are in the target with another content, or went on there: {}", join_ids(.jobs)
    )]
    Differs {
        /// How many.
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
        /// How many.
        count: u64,
        /// The first of them.
        jobs: Vec<(TenantId, JobId)>,
    },
    /// All others were copied: look at these, and decide whether they are needed.
    #[error("{} jobs cannot be read and were not copied: {}", .jobs.len(), .jobs.join(", "))]
    Unreadable {
        /// Their tenants and ids.
        jobs: Vec<String>,
    },
    /// Fewer ids are remembered as gone than should be.
    #[error("{missing} ids of deleted jobs are missing in the target")]
    TombstonesMissing {
        /// How many.
        missing: u64,
    },
    /// Whoever follows the progress said so.
    #[error("the copy was interrupted; run it again to go on")]
    Interrupted,
    /// The file cannot be read.
    #[error("the source: {0}")]
    Source(#[source] StoreError),
    /// The database cannot be written.
    #[error("the target: {0}")]
    Target(#[source] StoreError),
}

fn join_ids(jobs: &[(TenantId, JobId)]) -> String {
    let named: Vec<String> = jobs.iter().map(|(tenant, id)| format!("{tenant}/{id}")).collect();
    named.join(", ")
}

/// Copies everything. Both stores must be this caller's alone: opening the file makes sure of it, and
/// servers that are alive on the target are refused. `on_progress` is told how far it is, and may stop it.
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
    // First: a server that is started too early must not run what should wait.
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

/// The source from its beginning to its end.
struct Pages<'a> {
    from: &'a SqliteStore,
    next: Option<Cursor>,
}

impl<'a> Pages<'a> {
    fn of(from: &'a SqliteStore) -> Self {
        Self { from, next: Some(Cursor::default()) }
    }

    /// The next page, with jobs as the target can keep them.
    async fn next(&mut self) -> Result<Option<Page>, TransferError> {
        let Some(after) = self.next.take() else { return Ok(None) };
        let mut page = self.from.export_jobs(after).await.map_err(TransferError::Source)?;
        self.next = page.next.take();
        page.parcels = page.parcels.into_iter().map(fit_for_postgres).collect();
        Ok(self.next.is_some().then_some(page))
    }
}

/// Copies what is not there yet: how many that were, and how many were there.
async fn copy_page(to: &PostgresStore, page: &Page) -> Result<(u64, u64), TransferError> {
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

/// How jobs in the target differ from those that should be there.
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
        // Names that nobody can have hold nothing back.
        if let (Ok(tenant), Ok(queue)) = (TenantId::new(tenant), Name::new(queue)) {
            to.pause_queue(&tenant, &queue, true).await.map_err(TransferError::Target)?;
        }
    }
    Ok(paused.len() as u64)
}

/// Copies what finished jobs used, under the name of the file: a second run replaces what the first one
/// copied, and adds nothing to it.
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
