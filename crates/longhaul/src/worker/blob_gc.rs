//! Deletes what jobs leave behind outside of the database: every replica does, for all.

use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::blob::{BlobError, BlobPath};
use crate::ctx::payload::host;
use crate::engine::Shared;
use crate::engine::payload_store::EncryptedBlobs;
use crate::failpoint::{self, Failpoint};
use crate::job::Timestamp;
use crate::store::{BlobRef, Deletion, StoreError};

/// How many blobs one look deletes; the next look follows at once while there are as many.
const BATCH: usize = 100;
/// How many are deleted at the same time.
const AT_ONCE: usize = 8;
/// How often there is a look for blobs to delete that nobody announced.
const BURY_EVERY: Duration = Duration::from_secs(2);
/// How often unclaimed payloads are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);
/// How often strays are looked for.
const STRAYS_EVERY: Duration = Duration::from_mins(1);
/// How old a blob must be to be taken for a stray: its job may be about to be submitted.
const STRAY_AFTER: Duration = Duration::from_mins(2);
/// For how long an upload may not have grown before it is taken for dead.
const UNFINISHED_AFTER: Duration = Duration::from_mins(10);

pub(super) fn start(shared: &Arc<Shared>, tasks: &TaskTracker, ended: &CancellationToken) {
    let (expiring, folders) = (expire_on(Arc::clone(shared)), check_folders_on(Arc::clone(shared)));
    let encrypted_blobs = shared.encrypted_blobs.clone();
    let (burying, sweeping) = (Arc::clone(shared), Arc::clone(shared));
    let ended = ended.clone();
    tasks.spawn(async move {
        let with_vault = async {
            match encrypted_blobs {
                Some(encrypted_blobs) => {
                    tokio::join!(
                        bury_on(burying, Arc::clone(&encrypted_blobs)),
                        sweep_on(sweeping, encrypted_blobs)
                    )
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = async { tokio::join!(expiring, folders, with_vault) } => {}
            () = ended.cancelled() => {}
        }
    });
}

/// Deletes blobs whose jobs have no more use for them.
async fn bury_on(shared: Arc<Shared>, encrypted_blobs: Arc<EncryptedBlobs>) {
    loop {
        let more = match delete_blobs(&shared, &encrypted_blobs).await {
            Ok(count) => count == BATCH,
            Err(error) => {
                tracing::warn!(%error, "cannot delete blobs");
                false
            }
        };
        if !more {
            tokio::select! {
                () = shared.blob_gc_wake.notified() => {}
                () = shared.clock.sleep(BURY_EVERY) => {}
            }
        }
    }
}

async fn delete_blobs(
    shared: &Shared,
    encrypted_blobs: &EncryptedBlobs,
) -> Result<usize, StoreError> {
    let doomed = shared.store.blobs_to_delete(BATCH).await?;
    let count = doomed.len();
    if count == 0 {
        return Ok(0);
    }
    failpoint::reach(Failpoint::BlobMarkedForDeletion).await;
    let deletions: Vec<Deletion> = stream::iter(doomed)
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
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    failpoint::reach(Failpoint::BlobDeleted).await;
    shared.store.record_deletions(deletions, &shared.replica).await?;
    Ok(count)
}

/// Fails jobs whose payloads nobody has claimed.
async fn expire_on(shared: Arc<Shared>) {
    loop {
        match shared.store.expire_payloads(shared.payload_retention, BATCH).await {
            Ok(jobs) => {
                for job in &jobs {
                    tracing::warn!(
                        job.id = %job.id, job.kind = %job.kind, tenant.id = %job.tenant,
                        "nobody claimed this job before its payload expired",
                    );
                    shared.watchers.changed(&job.tenant, job.id, job.status, Some(job.version));
                    shared.blob_gc_wake.notify_one();
                }
                if jobs.len() == BATCH {
                    continue;
                }
            }
            Err(error) => tracing::warn!(%error, "cannot look for unclaimed payloads"),
        }
        shared.clock.sleep(EXPIRE_EVERY).await;
    }
}

/// Deletes blobs that no job knows: left by a process that died between storing and submitting.
async fn sweep_on(shared: Arc<Shared>, encrypted_blobs: Arc<EncryptedBlobs>) {
    loop {
        shared.clock.sleep(STRAYS_EVERY).await;
        let mut listed = pin!(encrypted_blobs.blobs.list().ready_chunks(BATCH));
        while let Some(found) = listed.next().await {
            if let Err(why) = delete_orphans(&shared, &encrypted_blobs, found).await {
                tracing::warn!(why, "cannot look for blobs without a job");
                break;
            }
        }
        let now = shared.clock.now().as_millis();
        let idle = i64::try_from(UNFINISHED_AFTER.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(now.saturating_sub(idle));
        if let Err(error) = encrypted_blobs.blobs.sweep_unfinished(before).await {
            tracing::warn!(%error, "cannot look for unfinished blobs");
        }
    }
}

type Listed = Result<(BlobPath, Timestamp), BlobError>;

async fn delete_orphans(
    shared: &Shared,
    encrypted_blobs: &EncryptedBlobs,
    found: Vec<Listed>,
) -> Result<(), String> {
    let mut old = HashMap::new();
    for listed in found {
        let (path, written_at) = listed.map_err(|error| error.to_string())?;
        if shared.clock.now().since(written_at) >= STRAY_AFTER {
            let (tenant, job) = (path.tenant().clone(), path.job());
            old.insert(BlobRef { tenant, job, path: path.to_string() }, path);
        }
    }
    if old.is_empty() {
        return Ok(());
    }
    let strays = shared.store.orphan_blobs(old.keys().cloned().collect()).await;
    for stray in strays.map_err(|error| error.to_string())? {
        if let Some(path) = old.get(&stray) {
            encrypted_blobs.blobs.delete(path).await.map_err(|error| error.to_string())?;
            tracing::info!(job.id = %stray.job, "deleted a blob without a job");
        }
    }
    Ok(())
}

/// Finds folders of this host that are gone, and says so: after a crash, whoever starts the next process
/// deletes what the last one left.
async fn check_folders_on(shared: Arc<Shared>) {
    loop {
        if let Err(error) = check_folders(&shared).await {
            tracing::warn!(%error, "cannot look for folders that are gone");
        }
        shared.clock.sleep(STRAYS_EVERY).await;
    }
}

async fn check_folders(shared: &Shared) -> Result<(), StoreError> {
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
    if gone.is_empty() {
        return Ok(());
    }
    let deletions = gone.into_iter().map(|blob| Deletion { blob, failure: None }).collect();
    shared.store.record_deletions(deletions, &shared.replica).await
}
