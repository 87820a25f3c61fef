//! The suite on every kind of store, and what is each one's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use longhaul::blob::{BlobError, Blobs, DeletedBlobs, JobKey};

use super::servers::{Server, until};
use super::suite::{a_path, every_promise, write};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_keeps_every_promise() {
    let blobs = Blobs::open("memory:").unwrap();
    every_promise(&blobs).await;
    assert_eq!(blobs.check().await, Ok(DeletedBlobs::Nothing));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_keeps_every_promise() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&format!("file:{}/blobs", folder.path().display())).unwrap();
    every_promise(&blobs).await;
    assert_eq!(blobs.check().await, Ok(DeletedBlobs::Nothing));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_keeps_every_promise() {
    let server = Server::s3().await;
    let blobs = server.open_s3("bucket", "secret");
    every_promise(&blobs).await;
    assert_eq!(blobs.check().await, Ok(DeletedBlobs::Nothing));

    // What was begun and dropped is cleared away by a task that nobody waits for.
    until("unfinished uploads to be gone", async || {
        let answer = server.request("GET", "/bucket?uploads", &[], "").await;
        !answer.contains("<Upload>")
    })
    .await;

    let versions = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                    <Status>Enabled</Status></VersioningConfiguration>";
    server.request("PUT", "/bucket?versioning", &[], versions).await;
    assert_eq!(blobs.check().await, Ok(DeletedBlobs::Versions));

    let absent = server.open_s3("absent", "secret");
    let said = "there is no such bucket or container".to_owned();
    assert_eq!(absent.check().await, Err(BlobError::Refused(said)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn azure_keeps_every_promise() {
    let server = Server::azure().await;
    let blobs = server.open_azure("box", None);
    every_promise(&blobs).await;
    assert_eq!(
        blobs.check().await,
        Ok(DeletedBlobs::Unknown),
        "it has a soft delete that it does not tell of"
    );

    let absent = server.open_azure("absent", None).check().await;
    let said = "there is no such bucket or container".to_owned();
    assert_eq!(absent, Err(BlobError::Refused(said)));

    let wrong_key = server.open_azure("box", Some("d3Jvbmcga2V5"));
    let written = write(&wrong_key, &a_path(), &JobKey::generate(), "hello".into()).await;
    let said = "not permitted (AuthorizationFailure)".to_owned();
    assert_eq!(written, Err(BlobError::Refused(said)));
}

/// A tenant's folder goes with its last blob, and another one may just be about to come in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blob_comes_in_while_its_folder_goes() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&format!("file:{}/blobs", folder.path().display())).unwrap();
    let (done, left) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (until_done, tenant) = (Arc::clone(&done), folder.path().join("blobs/acme"));
    let may_go = Arc::clone(&left);
    let deleting = std::thread::spawn(move || {
        while !until_done.load(Ordering::Relaxed) {
            // As deleting the last blob would; it fails while there is another one.
            if may_go.load(Ordering::Relaxed) > 0 && std::fs::remove_dir(&tenant).is_ok() {
                may_go.fetch_sub(1, Ordering::Relaxed);
            }
            std::thread::yield_now();
        }
    });
    for _ in 0..200 {
        // More often than any house would, and less often than one that never rests.
        left.store(20, Ordering::Relaxed);
        let path = a_path();
        let written = write(&blobs, &path, &JobKey::generate(), "hello".into()).await;
        assert_eq!(written.map(|written| written.size), Ok(5));
        blobs.delete(&path).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    deleting.join().unwrap();
}
