//! Blob garbage collection, run by every replica: deletes blobs of finished jobs, expired payloads
//! and orphans.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::maintenance::repeat;
use crate::blob::{BlobError, BlobPath};
use crate::ctx::work_dir::host;
use crate::engine::EngineState;
use crate::engine::payload_store::EncryptedBlobs;
use crate::failpoint::{self, Failpoint};
use crate::job::Timestamp;
use crate::store::{BlobRef, Deletion, StoreError};

/// Blobs handled per pass. A full batch is followed by another pass without waiting.
const BATCH: usize = 100;
const CONCURRENT_DELETIONS: usize = 8;
/// Interval between passes without a wake-up.
const DELETE_INTERVAL: Duration = Duration::from_secs(2);
/// Interval between searches for unclaimed payloads.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between searches for orphans.
const ORPHAN_INTERVAL: Duration = Duration::from_mins(1);
/// Minimum age of an orphan, because the job of a new blob may not be submitted yet.
const ORPHAN_MIN_AGE: Duration = Duration::from_mins(2);
/// Time without growth after which an upload counts as abandoned.
const UNFINISHED_AFTER: Duration = Duration::from_mins(10);

pub(super) fn start(shared: &Arc<EngineState>, tasks: &TaskTracker, ended: &CancellationToken) {
    let (shared, ended) = (Arc::clone(shared), ended.clone());
    tasks.spawn(async move {
        let expire_payloads = repeat(
            "cannot expire unclaimed payloads",
            || expire_payloads(&shared),
            || shared.clock.sleep(EXPIRE_INTERVAL),
        );
        let check_work_dirs = repeat(
            "cannot check working directories",
            || check_work_dirs(&shared),
            || shared.clock.sleep(ORPHAN_INTERVAL),
        );
        let collect_blobs = async {
            let Some(blobs) = &shared.encrypted_blobs else { return };
            let delete = repeat(
                "cannot delete blobs",
                || delete_blobs(&shared, blobs),
                || async {
                    tokio::select! {
                        () = shared.blob_gc_wake.notified() => {}
                        () = shared.clock.sleep(DELETE_INTERVAL) => {}
                    }
                },
            );
            tokio::join!(delete, orphan_loop(&shared, blobs));
        };
        tokio::select! {
            _ = async { tokio::join!(expire_payloads, check_work_dirs, collect_blobs) } => {}
            () = ended.cancelled() => {}
        }
    });
}

/// Deletes blobs that their jobs no longer need, and records the deletions. Returns whether there
/// may be more.
async fn delete_blobs(
    shared: &EngineState,
    encrypted_blobs: &EncryptedBlobs,
) -> Result<bool, StoreError> {
    let blobs = shared.store.blobs_to_delete(BATCH).await?;
    let more = blobs.len() == BATCH;
    if blobs.is_empty() {
        return Ok(false);
    }
    failpoint::reach(Failpoint::BlobMarkedForDeletion).await;
    let deletions: Vec<Deletion> = stream::iter(blobs)
        .map(|blob| async {
            let failure = match blob.path.parse::<BlobPath>() {
                Ok(path) => encrypted_blobs.blobs.delete(&path).await.err().map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = &failure {
                tracing::warn!(job.id = %blob.job, why, "cannot delete a blob; it cannot be read any more");
            }
            Deletion { blob, failure }
        })
        .buffer_unordered(CONCURRENT_DELETIONS)
        .collect()
        .await;
    failpoint::reach(Failpoint::BlobDeleted).await;
    shared.store.record_deletions(deletions, &shared.replica).await?;
    Ok(more)
}

/// Fails jobs whose payloads expired before a worker claimed them. Returns whether there may be
/// more.
async fn expire_payloads(shared: &EngineState) -> Result<bool, StoreError> {
    let jobs = shared.store.expire_payloads(shared.payload_retention, BATCH).await?;
    for job in &jobs {
        tracing::warn!(
            job.id = %job.id, job.kind = %job.kind, tenant.id = %job.tenant,
            "payload expired before the job was claimed; the job failed",
        );
        shared.watchers.changed(&job.tenant, job.id, job.status, Some(job.version));
        shared.blob_gc_wake.notify_one();
    }
    Ok(jobs.len() == BATCH)
}

/// Deletes orphans: blobs of processes that died between upload and submission.
///
/// A blob must be an orphan in two passes in a row, because its age does not prove that its upload has ended long ago: S3
/// dates an object by the start of its upload.
async fn orphan_loop(shared: &EngineState, encrypted_blobs: &EncryptedBlobs) {
    let mut sighted = HashSet::new();
    loop {
        shared.clock.sleep(ORPHAN_INTERVAL).await;
        let sighted_before = std::mem::take(&mut sighted);
        let mut listed = pin!(encrypted_blobs.blobs.list().ready_chunks(BATCH));
        while let Some(found) = listed.next().await {
            let orphans = find_orphans(shared, found).await;
            let deleted = match orphans {
                Ok(orphans) => {
                    let (again, new): (Vec<_>, Vec<_>) = orphans
                        .into_iter()
                        .partition(|(orphan, _)| sighted_before.contains(orphan));
                    sighted.extend(new.into_iter().map(|(orphan, _)| orphan));
                    delete_orphans(encrypted_blobs, again).await
                }
                Err(why) => Err(why),
            };
            if let Err(why) = deleted {
                tracing::warn!(why, "cannot search for orphaned blobs");
                break;
            }
        }
        let now = shared.clock.now().as_millis();
        let idle = i64::try_from(UNFINISHED_AFTER.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(now.saturating_sub(idle));
        if let Err(error) = encrypted_blobs.blobs.sweep_unfinished(before).await {
            tracing::warn!(%error, "cannot delete unfinished blobs");
        }
    }
}

type ListedBlob = Result<(BlobPath, Timestamp), BlobError>;

/// Returns those of the listed blobs that are old and belong to no job.
async fn find_orphans(
    shared: &EngineState,
    found: Vec<ListedBlob>,
) -> Result<Vec<(BlobRef, BlobPath)>, String> {
    let mut old = HashMap::new();
    for listed in found {
        let (path, written_at) = listed.map_err(|error| error.to_string())?;
        if shared.clock.now().since(written_at) >= ORPHAN_MIN_AGE {
            let (tenant, job) = (path.tenant().clone(), path.job());
            old.insert(BlobRef { tenant, job, path: path.to_string() }, path);
        }
    }
    if old.is_empty() {
        return Ok(Vec::new());
    }
    let orphans = shared.store.orphan_blobs(old.keys().cloned().collect()).await;
    let orphans = orphans.map_err(|error| error.to_string())?;
    Ok(orphans.into_iter().filter_map(|orphan| old.remove_entry(&orphan)).collect())
}

async fn delete_orphans(
    encrypted_blobs: &EncryptedBlobs,
    orphans: Vec<(BlobRef, BlobPath)>,
) -> Result<(), String> {
    for (orphan, path) in orphans {
        encrypted_blobs.blobs.delete(&path).await.map_err(|error| error.to_string())?;
        tracing::info!(job.id = %orphan.job, "deleted an orphaned blob");
    }
    Ok(())
}

/// Records working directories of this host that no longer exist. After a crash, the next process
/// on the host deletes them when it starts.
async fn check_work_dirs(shared: &EngineState) -> Result<bool, StoreError> {
    let host = host();
    let folders = shared.store.work_dirs(&host, BATCH).await?;
    let prefix = format!("{host}:");
    let checking = tokio::task::spawn_blocking(move || {
        let is_gone = |blob: &BlobRef| {
            let path = blob.path.strip_prefix(&prefix).map(Path::new);
            path.is_some_and(|path| matches!(path.try_exists(), Ok(false)))
        };
        folders.into_iter().filter(is_gone).collect::<Vec<BlobRef>>()
    });
    let gone = checking.await.unwrap_or_default();
    if !gone.is_empty() {
        let deletions = gone.into_iter().map(|blob| Deletion { blob, failure: None }).collect();
        shared.store.record_deletions(deletions, &shared.replica).await?;
    }
    Ok(false)
}
