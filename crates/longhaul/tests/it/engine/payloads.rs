//! Payloads and artifacts: available to handlers, and deleted afterwards. Each path of deletion is
//! tested with the others disabled.

mod cleaning;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt;
use longhaul::blob::{Blobs, Keyring};
use longhaul::store::BlobRole;
use longhaul::{EngineBuilder, StagedPayload, SubmitError, UploadError};
use tempfile::TempDir;

use super::*;

/// An engine whose blobs are files that the test can list.
struct Place {
    blobs: TempDir,
    work: TempDir,
    clock: Clock,
}

impl Place {
    fn new() -> (Self, EngineBuilder) {
        let (builder, clock) = still();
        let place = Self { blobs: folder(), work: folder(), clock };
        let blobs = Blobs::open(&format!("file:{}", place.blobs.path().display())).unwrap();
        let builder = builder.blobs(blobs, Keyring::generate()).work_root(place.work.path());
        (place, builder)
    }

    fn files(&self) -> Vec<PathBuf> {
        files_in(self.blobs.path())
    }

    async fn until_empty(&self) {
        while !self.files().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_in(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// Larger than several encryption chunks.
fn bytes() -> Vec<u8> {
    (0..300_000_u32).flat_map(u32::to_le_bytes).collect()
}

async fn upload(engine: &Engine, bytes: &[u8]) -> StagedPayload {
    let mut upload = engine.upload().await.unwrap().content_type("application/zip").name("a.zip");
    for piece in bytes.chunks(70_001) {
        upload.write(piece.to_vec().into()).await.unwrap();
    }
    upload.finish().await.unwrap()
}

/// Returns a kind that returns its payload as an artifact.
fn echo() -> Kind {
    Kind::new("echo", |ctx: Ctx, (): ()| async move {
        let payload = ctx.payload().await?;
        assert_eq!((payload.content_type(), payload.name()), ("application/zip", "a.zip"));
        let pieces: Vec<_> = payload.read().await?.try_collect().await.unwrap();
        let mut artifact = ctx.artifact("copy.zip", payload.content_type())?;
        for piece in pieces {
            artifact.write(piece).await?;
        }
        artifact.finish().await
    })
}

async fn deleted(engine: &Engine, id: JobId, role: BlobRole) {
    loop {
        let receipt = engine.receipt(id).await.unwrap();
        let mut blobs = receipt.blobs.iter().filter(|blob| blob.role == role);
        if blobs.all(|blob| blob.deleted_at.is_some()) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn payload_reaches_its_handler_and_comes_back_as_an_artifact() {
    let (place, builder) = Place::new();
    let engine = builder.register(echo()).start().await.unwrap();
    let payload = upload(&engine, &bytes()).await;
    let digest = *payload.digest();
    let sealed = fs::read(&place.files()[0]).unwrap();
    let clear = bytes();
    assert!(sealed.len() > clear.len());
    assert!(!sealed.windows(64).any(|part| part == &clear[..64]));
    let job = engine.submit_raw("echo", &()).payload(payload).await.unwrap();
    let record = job.wait().await.unwrap();
    assert_eq!(record.job.status, Status::Completed, "{:?}", record.job.error);
    let artifact = engine.artifact(job.id(), "copy.zip").await.unwrap();
    assert_eq!((artifact.size(), artifact.digest()), (bytes().len() as u64, digest));
    let whole: Vec<_> = artifact.read(None).await.unwrap().try_collect().await.unwrap();
    assert_eq!(whole.concat(), bytes());
    let part: Vec<_> =
        artifact.read(Some(65_000..66_000)).await.unwrap().try_collect().await.unwrap();
    assert_eq!(part.concat(), &bytes()[65_000..66_000]);
    deleted(&engine, job.id(), BlobRole::Payload).await;
    assert_eq!(place.files().len(), 1, "the artifact is kept");
    engine.purge(job.id()).await.unwrap();
    place.until_empty().await;
    let receipt = engine.receipt(job.id()).await.unwrap();
    assert!(receipt.gone && receipt.blobs.len() == 2);
    engine.stop().await;
}

#[tokio::test]
async fn payload_file_is_private_and_deleted_before_the_job_is_settled() {
    let (place, builder) = Place::new();
    let kind = Kind::new("file", |ctx: Ctx, (): ()| async move {
        let path = ctx.payload().await?.file().await?;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(fs::read(&path).unwrap(), bytes());
        Err::<(), _>(JobError::fatal("no"))
    });
    let engine = builder.register(kind).start().await.unwrap();
    let payload = upload(&engine, &bytes()).await;
    let job = engine.submit_raw("file", &()).payload(payload).await.unwrap();
    let record = job.wait().await.unwrap();
    assert_eq!(record.job.error.unwrap().message, "no");
    assert_eq!(files_in(place.work.path()), Vec::<PathBuf>::new());
    let receipt = engine.receipt(job.id()).await.unwrap();
    let folder = receipt.blobs.iter().find(|blob| blob.role == BlobRole::Folder).unwrap();
    assert!(folder.deleted_at.is_some());
    engine.stop().await;
}

#[tokio::test]
async fn artifacts_of_a_failed_attempt_are_deleted() {
    let (place, builder) = Place::new();
    let kind = Kind::new("half", |ctx: Ctx, (): ()| async move {
        let mut first = ctx.artifact("same", "text/plain")?;
        first.write("one".into()).await?;
        first.finish().await?;
        let mut second = ctx.artifact("same", "text/plain")?;
        second.write("two".into()).await?;
        second.finish().await?;
        drop(ctx.artifact("unfinished", "text/plain")?);
        if ctx.attempt() == 1 { Err(JobError::retryable("again")) } else { Ok(()) }
    });
    let engine = builder.register(kind.retry(at_once(2))).start().await.unwrap();
    let job = engine.submit_raw("half", &()).await.unwrap();
    let record = job.wait().await.unwrap();
    let names: Vec<_> =
        record.job.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    assert_eq!(names, ["same"]);
    assert_eq!(place.files().len(), 1, "{:?}", place.files());
    let artifact = engine.artifact(job.id(), "same").await.unwrap();
    let bytes: Vec<_> = artifact.read(None).await.unwrap().try_collect().await.unwrap();
    assert_eq!(bytes.concat(), b"two");
    engine.stop().await;
}

#[tokio::test]
async fn artifact_name_must_be_a_file_name() {
    let (_place, builder) = Place::new();
    let kind = Kind::new("named", |ctx: Ctx, name: String| async move {
        ctx.artifact(name, "text/plain")?.finish().await
    });
    let engine = builder.register(kind).start().await.unwrap();
    for bad in ["", ".", "..", "a/b", "a\\b", "a\nb", &"x".repeat(256)] {
        let job = engine.submit_raw("named", &bad).await.unwrap();
        let error = job.wait().await.unwrap().job.error.unwrap();
        assert_eq!((error.code.as_str(), error.retryable), ("artifact-name", false), "{bad:?}");
    }
    engine.stop().await;
}

#[tokio::test]
async fn second_payload_under_a_key_is_deleted_at_once() {
    let (place, builder) = Place::new();
    let engine = builder.register(echo()).concurrency(0).start().await.unwrap();
    let submit = async |payload| engine.submit_raw("echo", &()).key("k").payload(payload).await;
    let first = submit(upload(&engine, b"same").await).await.unwrap();
    let second = submit(upload(&engine, b"same").await).await.unwrap();
    assert!(first.created() && !second.created() && first.id() == second.id());
    let other = submit(upload(&engine, b"another").await).await;
    assert!(matches!(other, Err(SubmitError::Store(_))), "{other:?}");
    while place.files().len() > 1 {
        tokio::task::yield_now().await;
    }
    engine.stop().await;
}

#[tokio::test]
async fn upload_that_is_not_submitted_leaves_nothing() {
    let (place, builder) = Place::new();
    let engine = builder.register(echo()).start().await.unwrap();
    let mut unfinished = engine.upload().await.unwrap();
    unfinished.write(bytes().into()).await.unwrap();
    drop(unfinished);
    drop(upload(&engine, &bytes()).await);
    place.until_empty().await;
    engine.stop().await;
}

#[tokio::test]
async fn orphaned_blob_is_deleted() {
    let (place, builder) = Place::new();
    // No other path may delete anything, however far the clock advances.
    let builder = builder.concurrency(0).payload_retention(Duration::MAX);
    let engine = builder.register(echo()).start().await.unwrap();
    engine.submit_raw("echo", &()).payload(upload(&engine, &bytes()).await).await.unwrap();
    let kept = place.files();
    // Simulates a process that was killed before it could submit.
    std::mem::forget(upload(&engine, &bytes()).await);
    assert_eq!(place.files().len(), 2);
    while place.files().len() > 1 {
        place.clock.advance(Duration::from_secs(30));
        tokio::task::yield_now().await;
    }
    assert_eq!(place.files(), kept);
    engine.stop().await;
}

#[tokio::test]
async fn payload_of_an_unclaimed_job_expires() {
    let (place, builder) = Place::new();
    let engine = builder.register(echo()).concurrency(0).start().await.unwrap();
    let job =
        engine.submit_raw("echo", &()).payload(upload(&engine, &bytes()).await).await.unwrap();
    place.clock.advance(Duration::from_mins(61));
    let record = job.wait().await.unwrap();
    assert_eq!(record.job.error.unwrap().code, "payload-expired");
    place.until_empty().await;
    engine.stop().await;
}

#[tokio::test]
async fn blob_deletion_is_retried_until_it_succeeds() {
    let (place, builder) = Place::new();
    let (began, go) = (Signal::new(), Signal::new());
    let engine = builder.register(gated("gated", &began, &go)).start().await.unwrap();
    let job =
        engine.submit_raw("gated", &()).payload(upload(&engine, &bytes()).await).await.unwrap();
    began.wait().await;
    // A directory that is not empty cannot be deleted as a file.
    let path = place.files().remove(0);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("in the way"), "").unwrap();
    go.send();
    job.wait().await.unwrap();
    loop {
        let blob = engine.receipt(job.id()).await.unwrap().blobs.remove(0);
        assert!(blob.key.is_none() && blob.deleted_at.is_none());
        if blob.failures > 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    fs::remove_dir_all(&path).unwrap();
    // Repeated, because the loop may not be waiting yet when the clock moves.
    while engine.receipt(job.id()).await.unwrap().blobs.remove(0).deleted_at.is_none() {
        place.clock.advance(Duration::from_secs(6));
        tokio::task::yield_now().await;
    }
    engine.stop().await;
}

#[tokio::test]
async fn payload_that_is_missing_or_damaged_fails_the_job_at_once() {
    for (code, spoil) in [
        ("payload-missing", (|path| fs::remove_file(path).unwrap()) as fn(&Path)),
        ("payload-damaged", |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[100] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("payload-damaged", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 70_000]).unwrap();
        }),
    ] {
        let (place, builder) = Place::new();
        let kind = Kind::new("read", |ctx: Ctx, (): ()| async move {
            ctx.payload().await?.file().await.map(|_| ())
        });
        let engine = builder.register(kind).start().await.unwrap();
        let payload = upload(&engine, &bytes()).await;
        spoil(&place.files()[0]);
        let job = engine.submit_raw("read", &()).payload(payload).await.unwrap();
        let job = job.wait().await.unwrap().job;
        let error = job.error.unwrap();
        assert_eq!((error.code.as_str(), job.attempt), (code, 1), "{}", error.message);
        engine.stop().await;
    }
}

#[tokio::test]
async fn payload_limits_apply_per_payload_and_per_tenant() {
    let (place, builder) = Place::new();
    let limits = longhaul::job::Limits {
        payload_bytes_max: 100,
        payload_bytes_per_tenant_max: 150,
        ..longhaul::job::Limits::default()
    };
    let engine = builder.limits(limits).register(echo()).concurrency(0).start().await.unwrap();
    let mut large = engine.upload().await.unwrap();
    large.write(vec![0; 60].into()).await.unwrap();
    assert!(matches!(large.write(vec![0; 60].into()).await, Err(UploadError::Limit(_))));
    drop(large);
    let payload = upload(&engine, &[7; 100]).await;
    engine.submit_raw("echo", &()).payload(payload).await.unwrap();
    let second = engine.upload().await.unwrap();
    assert!(matches!(second.check(60), Err(UploadError::TenantFull { max: 150 })));
    assert!(second.check(50).is_ok());
    drop(second);
    assert_eq!(place.files().len(), 1);
    engine.stop().await;
}

#[tokio::test]
async fn payload_is_rejected_where_it_would_be_lost() {
    let (_place, builder) = Place::new();
    let none =
        Kind::new("none", |_: Ctx, (): ()| async { Ok::<_, JobError>(()) }).accepts_payload(false);
    let engine = builder.register(echo()).register(none).start().await.unwrap();
    let refused = async |submission: longhaul::Submission| {
        let payload = upload(&engine, b"x").await;
        match submission.payload(payload).await {
            Err(SubmitError::Invalid(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(engine.submit_raw("none", &())).await, "kind none does not accept payloads");
    let late = engine.submit_raw("echo", &()).delay(Duration::from_hours(1));
    assert!(refused(late).await.contains("exceeds the payload retention"));
    let other = engine.for_tenant(longhaul::TenantId::new("other").unwrap());
    assert!(refused(other.submit_raw("echo", &())).await.contains("another tenant"));
    engine.stop().await;
}

/// A replica with other keys must not destroy a payload.
#[tokio::test]
async fn payload_with_an_unknown_key_is_left_to_another_replica() {
    let clock = Clock::manual(START);
    let store = Arc::new(longhaul::store::sqlite::SqliteStore::memory(clock.clone()).unwrap());
    let blobs = Blobs::open("memory:").unwrap();
    let replica = || {
        let builder = Engine::builder().store(store.clone()).clock(clock.clone());
        builder.blobs(blobs.clone(), Keyring::generate()).register(echo().retry(at_once(2)))
    };
    let submitter = replica().concurrency(0).start().await.unwrap();
    let payload = upload(&submitter, &bytes()).await;
    let job = submitter.submit_raw("echo", &()).payload(payload).await.unwrap();
    let other = replica().start().await.unwrap();
    let ended = super::ended(&other, job.id()).await.job;
    let error = ended.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.retryable, ended.attempt),
        ("payload-unreadable", true, 2)
    );
    other.stop().await;
    submitter.stop().await;
}
