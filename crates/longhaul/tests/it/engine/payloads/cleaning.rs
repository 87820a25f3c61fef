//! Deletion paths that only matter if another one failed.

use longhaul::store::sqlite::SqliteStore;
use longhaul::store::{BlobRef, MaintenanceStore as _, Store, StoreError};
use tokio::sync::watch;

use super::*;

/// Store, blobs and clock that the replicas share.
struct Processes {
    place: Place,
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
}

impl Processes {
    fn new() -> Self {
        let clock = Clock::manual(START);
        let store = Arc::new(SqliteStore::memory(clock.clone()).unwrap());
        let place = Place { blobs: folder(), work: folder(), clock };
        Self { place, store, keyring: Arc::new(Keyring::generate()) }
    }

    fn one(&self) -> EngineBuilder {
        let Self { place, store, keyring } = self;
        let blobs = Blobs::open(&format!("file:{}", place.blobs.path().display())).unwrap();
        let builder = Engine::builder().store(Arc::clone(store)).clock(place.clock.clone());
        builder.blobs(blobs, Arc::clone(keyring)).work_root(place.work.path())
    }
}

/// A store that counts the searches for orphans that found old blobs.
struct SearchedStore {
    inner: SqliteStore,
    searches: watch::Sender<usize>,
}

impl SearchedStore {
    async fn orphan_blobs(&self, blobs: Vec<BlobRef>) -> Result<Vec<BlobRef>, StoreError> {
        let orphans = self.inner.orphan_blobs(blobs).await;
        self.searches.send_modify(|searches| *searches += 1);
        orphans
    }
}

longhaul::delegate_store!(impl for SearchedStore, to [inner], except orphan_blobs);

/// Regression: S3 dates an object by the start of its upload, so a long upload looks old when it ends. If a search came
/// before the submission, the payload of an acknowledged job was deleted.
#[tokio::test]
async fn blob_whose_job_is_submitted_after_a_search_for_orphans_is_kept() {
    let mut processes = Processes::new();
    let (clock, searches) = (processes.place.clock.clone(), watch::Sender::new(0));
    let inner = SqliteStore::memory(clock.clone()).unwrap();
    processes.store = Arc::new(SearchedStore { inner, searches: searches.clone() });
    let builder = processes.one().concurrency(0).payload_retention(Duration::MAX);
    let engine = builder.register(echo()).start().await.unwrap();
    let search = async |count: usize| {
        while *searches.borrow() < count {
            clock.advance(Duration::from_secs(30));
            tokio::task::yield_now().await;
        }
    };
    let payload = upload(&engine, &bytes()).await;
    search(1).await;
    let job = engine.submit_raw("echo", &()).payload(payload).await.unwrap();
    search(4).await;
    assert_eq!(processes.place.files().len(), 1);
    assert_eq!(engine.receipt(job.id()).await.unwrap().blobs.len(), 1);
    engine.stop().await;
}

async fn folder_on_record(engine: &Engine, id: JobId) -> longhaul::store::Blob {
    let blobs = engine.receipt(id).await.unwrap().blobs;
    blobs.into_iter().find(|blob| blob.role == BlobRole::Folder).unwrap()
}

/// The replica that ended a job may have died before it could wake the garbage collector.
#[tokio::test]
async fn blob_deletion_without_a_notification_is_found() {
    let processes = Processes::new();
    let Processes { place, store, .. } = &processes;
    let engine = processes.one().register(echo()).concurrency(0).start().await.unwrap();
    let job =
        engine.submit_raw("echo", &()).payload(upload(&engine, &bytes()).await).await.unwrap();
    store.cancel(engine.tenant(), job.id()).await.unwrap();
    assert_eq!(place.files().len(), 1);
    while !place.files().is_empty() {
        place.clock.advance(Duration::from_secs(2));
        tokio::task::yield_now().await;
    }
    deleted(&engine, job.id(), BlobRole::Payload).await;
    engine.stop().await;
}

#[tokio::test]
async fn unfinished_blob_of_a_killed_process_is_deleted() {
    let (place, builder) = Place::new();
    let job = place.blobs.path().join("default").join("01M7HHYXCK8MA0PPW2HFFCZ97T");
    fs::create_dir_all(&job).unwrap();
    fs::write(job.join(format!("{}#1", "a".repeat(32))), "half").unwrap();
    let engine = builder.start().await.unwrap();
    while !place.files().is_empty() {
        place.clock.advance(Duration::from_mins(1));
        tokio::task::yield_now().await;
    }
    engine.stop().await;
}

/// A starting process deletes the working directories of its predecessor, whose records name the
/// jobs.
#[tokio::test]
async fn missing_working_directory_is_recorded_as_deleted_by_the_next_process() {
    let processes = Processes::new();
    let work = processes.place.work.path();
    let (began, go) = (Signal::new(), Signal::new());
    let kind = {
        let (began, go) = (began.clone(), go.clone());
        Kind::new("file", move |ctx: Ctx, (): ()| {
            let (began, go) = (began.clone(), go.clone());
            async move {
                ctx.payload().await?.file().await?;
                began.send();
                go.wait().await;
                Ok::<_, JobError>(())
            }
        })
    };
    let first = processes.one().register(kind).start().await.unwrap();
    let job = first.submit_raw("file", &()).payload(upload(&first, &bytes()).await).await.unwrap();
    began.wait().await;
    assert_eq!(files_in(work).len(), 1);
    assert_eq!(folder_on_record(&first, job.id()).await.deleted_at, None);
    for folder in fs::read_dir(work).unwrap() {
        fs::remove_dir_all(folder.unwrap().path()).unwrap();
    }
    let next = processes.one().replica("next").concurrency(0).start().await.unwrap();
    deleted(&next, job.id(), BlobRole::Folder).await;
    let folder = folder_on_record(&next, job.id()).await;
    assert_eq!(folder.deleted_by.as_deref(), Some("next"));
    go.send();
    job.wait().await.unwrap();
    first.stop().await;
    next.stop().await;
}

#[tokio::test]
async fn working_directory_is_deleted_between_attempts() {
    let (place, builder) = Place::new();
    let kind = Kind::new("file", |ctx: Ctx, (): ()| async move {
        ctx.payload().await?.file().await?;
        Err::<(), _>(JobError::retryable("later"))
    });
    let later = Retry::times(2).first(Duration::from_mins(10));
    let engine = builder.register(kind.retry(later)).start().await.unwrap();
    let job =
        engine.submit_raw("file", &()).payload(upload(&engine, &bytes()).await).await.unwrap();
    let mut watcher = job.watch();
    loop {
        let seen = watcher.next().await.unwrap().unwrap().job;
        if seen.attempt == 1 && seen.status != Status::Running {
            assert!(!seen.status.is_terminal());
            break;
        }
    }
    assert_eq!(files_in(place.work.path()), Vec::<PathBuf>::new());
    assert!(folder_on_record(&engine, job.id()).await.deleted_at.is_some());
    assert_eq!(place.files().len(), 1, "the next attempt needs the payload");
    engine.stop().await;
}

#[tokio::test]
async fn artifacts_are_deleted_when_their_job_expires() {
    let (place, builder) = Place::new();
    let engine = builder.register(echo()).start().await.unwrap();
    let job =
        engine.submit_raw("echo", &()).payload(upload(&engine, &bytes()).await).await.unwrap();
    job.wait().await.unwrap();
    deleted(&engine, job.id(), BlobRole::Payload).await;
    assert_eq!(place.files().len(), 1);
    place.clock.advance(Duration::from_hours(25));
    while !place.files().is_empty() {
        place.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    assert!(engine.receipt(job.id()).await.unwrap().gone);
    engine.stop().await;
}
