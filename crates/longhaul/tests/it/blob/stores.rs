//! The suite on every backend, and tests of single backends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use longhaul::blob::{BlobError, Blobs, DeletedBlobs, JobKey};

use super::servers::{Server, until};
use super::suite::{a_path, every_promise, write};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_blobs_pass_the_suite() {
    let blobs = Blobs::open("memory:").unwrap();
    every_promise(&blobs).await;
    assert_eq!(blobs.check().await, Ok(DeletedBlobs::Nothing));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_blobs_pass_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&format!("file:{}/blobs", folder.path().display())).unwrap();
    every_promise(&blobs).await;
    assert_eq!(blobs.check().await, Ok(DeletedBlobs::Nothing));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_blobs_pass_the_suite() {
    let server = Server::s3().await;
    let blobs = server.open_s3("bucket", "secret");
    every_promise(&blobs).await;
    assert_eq!(blobs.check().await, Ok(DeletedBlobs::Nothing));

    // Dropped uploads are deleted by a background task.
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
async fn azure_blobs_pass_the_suite() {
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

/// Deleting a tenant's last blob removes its directory, while another blob may be about to be
/// written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blob_is_written_while_its_directory_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&format!("file:{}/blobs", folder.path().display())).unwrap();
    let (done, left) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (until_done, tenant) = (Arc::clone(&done), folder.path().join("blobs/acme"));
    let may_go = Arc::clone(&left);
    let deleting = std::thread::spawn(move || {
        while !until_done.load(Ordering::Relaxed) {
            // Simulates deletion of the last blob; it fails while there is another one.
            if may_go.load(Ordering::Relaxed) > 0 && std::fs::remove_dir(&tenant).is_ok() {
                may_go.fetch_sub(1, Ordering::Relaxed);
            }
            std::thread::yield_now();
        }
    });
    for _ in 0..200 {
        // More often than in production, but not without end.
        left.store(20, Ordering::Relaxed);
        let path = a_path();
        let written = write(&blobs, &path, &JobKey::generate(), "hello".into()).await;
        assert_eq!(written.map(|written| written.size), Ok(5));
        blobs.delete(&path).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    deleting.join().unwrap();
}
