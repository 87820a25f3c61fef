//! Copy and comparison of jobs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use sha2::{Digest as _, Sha256};

use super::{TenantDigest, TransferError, TransferProgress, TransferStage};
use crate::job::{JobId, TenantId};
use crate::store::postgres::{PostgresStore, fit_for_postgres};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::transfer::{Cursor, ExportPage};
use crate::store::transfer::{ExportedJob, hex};

/// Maximum number of jobs that an error lists.
const LISTED_JOBS_MAX: usize = 10;

/// Counts of copied jobs.
#[derive(Default)]
pub(super) struct CopyCounts {
    pub(super) jobs: u64,
    /// Jobs copied by an earlier run.
    pub(super) known: u64,
    /// Tenants and ids of jobs that cannot be read.
    pub(super) unreadable: Vec<String>,
}

/// Copies the jobs that the target does not have.
pub(super) async fn copy(
    from: &SqliteStore,
    to: &PostgresStore,
    total: u64,
    on_progress: &mut impl FnMut(TransferProgress) -> ControlFlow<()>,
) -> Result<CopyCounts, TransferError> {
    let mut copied = CopyCounts::default();
    report_progress(on_progress, TransferStage::Copying, 0, total)?;
    let mut pages = Pages::of(from);
    while let Some(page) = pages.next().await? {
        let (jobs, known) = copy_page(to, &page).await?;
        copied.jobs += jobs;
        copied.known += known;
        let unreadable = page.unreadable.iter().map(|(tenant, id)| format!("{tenant}/{id}"));
        copied.unreadable.extend(unreadable);
        let done = copied.jobs + copied.known;
        report_progress(on_progress, TransferStage::Copying, done, total)?;
    }
    Ok(copied)
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

/// Reads all jobs back from both stores and compares them.
pub(super) async fn check(
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
