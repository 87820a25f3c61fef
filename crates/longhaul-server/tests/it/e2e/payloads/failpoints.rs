//! Kills a server at each failpoint between the first byte of a payload and the end of its receipt.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;

use futures_util::{StreamExt, stream};
use longhaul::failpoint::Failpoint;
use longhaul_client::wire::Receipt;

use super::fixture::{Case, TestStorage, config};
use super::requests::{all_deleted, ask, delete, ended, submit};

/// Number of concurrent servers. Most of the time they wait for a lease to expire.
const AT_ONCE: usize = 6;

/// Copies its payload into an artifact.
const SCRIPT: &str = "cp $LONGHAUL_PAYLOAD $LONGHAUL_ARTIFACTS/copy; wc -c <$LONGHAUL_PAYLOAD";

/// The state of a job from the view of its caller.
#[derive(Default)]
struct CallerView {
    id: Option<String>,
    /// The caller has requested the deletion.
    purged: bool,
}

/// Sends a payload, waits for the end of its job, deletes it and waits until nothing is left, as far as
/// all of that goes.
async fn live(address: SocketAddr, payload: &[u8], view: &mut CallerView) -> io::Result<Receipt> {
    let id = view.id.insert(submit(address, payload).await?);
    ended(address, id).await?;
    view.purged = true;
    delete(address, id).await?;
    all_deleted(address, id).await
}

/// Reports whether a killed server leaves the decrypted payload in the work directory; `None` if that is a matter
/// of moments.
fn leaves_clear(point: Failpoint) -> Option<bool> {
    use Failpoint as At;
    match point {
        At::PayloadDecrypted | At::ArtifactStarted | At::ArtifactStored => Some(true),
        // The job runs while its caller waits to hear of it.
        At::PayloadPartlyDecrypted | At::Submitted => None,
        At::UploadStarted
        | At::UploadSent
        | At::UploadStored
        | At::Claimed
        | At::WorkDirCreated
        | At::WorkDirRecorded
        | At::HandlerReturned
        | At::WorkDirDeleted
        | At::CleanedUp
        | At::Settled
        | At::BlobMarkedForDeletion
        | At::BlobDeleted
        | At::Purged => Some(false),
    }
}

async fn killed_at(storage: &TestStorage, point: Failpoint) {
    eprintln!("{point:?}");
    let case = Case::new(storage, &config(SCRIPT)).await;
    let in_parts = [Failpoint::UploadSent, Failpoint::ArtifactStarted].contains(&point);
    let payload = storage.payload(in_parts);
    let mut server = case.start(Some(point)).await;
    let (mut view, waiting) =
        (CallerView::default(), format!("waiting at the failpoint {point:?}"));
    let killed = {
        let mut life = pin!(live(case.install.address(), &payload, &mut view));
        tokio::select! {
            receipt = &mut life => panic!("{point:?} was never reached: {receipt:?}"),
            () = server.wait_for_log(&waiting) => {}
        }
        let killed = server.kill9().await;
        // Only now: a caller who goes away is noticed.
        life.await.unwrap_err();
        killed
    };
    case.assert_silent(&killed);
    let clear = case.found();
    assert!(clear.iter().all(|path| path.starts_with(case.work())), "{point:?}: {clear:?}");
    assert!(leaves_clear(point).is_none_or(|leaves| leaves != clear.is_empty()), "{point:?}");

    let server = case.start(None).await;
    let address = case.install.address();
    let id = match view.id {
        Some(id) => id,
        None => submit(address, &payload).await.unwrap(),
    };
    let job = ended(address, &id).await.unwrap();
    assert!(job.is_some() || view.purged, "{point:?}");
    case.assert_clean().await;
    if let Some(job) = job {
        let done = (&job["status"], &job["result"]);
        assert_eq!(done, (&"completed".into(), &payload.len().into()), "{point:?}");
        let artifact = ask(address, &format!("GET /v1/jobs/{id}/artifacts/copy"), b"").await;
        assert!(artifact.unwrap().body == payload, "{point:?}");
        delete(address, &id).await.unwrap();
    }
    let receipt = all_deleted(address, &id).await.unwrap();
    assert!(receipt.stored.iter().all(|one| one.deleted_by.is_some()), "{point:?}: {receipt:?}");
    case.assert_clean().await;
    let killed = server.kill9().await;
    assert!(killed.stderr.contains("DEBUG"), "{point:?}: the log is of no use here");
    case.assert_silent(&killed);
    assert_strays_are_swept(&case, point).await;
}

/// Asserts that blobs which no job references are deleted.
async fn assert_strays_are_swept(case: &Case<'_>, point: Failpoint) {
    let stored = case.stored().await;
    let leaves_stray = [Failpoint::UploadStored, Failpoint::ArtifactStored].contains(&point);
    assert!(!leaves_stray || stored.len() == 1, "{point:?}: {stored:?}");
    if !stored.is_empty() {
        case.sweep().await;
    }
}

async fn killed_everywhere(on_postgres: bool, in_cloud: bool) {
    let storage = TestStorage::new(on_postgres, in_cloud).await;
    let cases = stream::iter(Failpoint::ALL).map(|point| killed_at(&storage, *point));
    cases.buffer_unordered(AT_ONCE).collect::<()>().await;
    storage.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_leaves_no_payload_on_sqlite_and_files() {
    killed_everywhere(false, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_leaves_no_payload_on_sqlite_and_azure() {
    killed_everywhere(false, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_leaves_no_payload_on_postgres_and_files() {
    killed_everywhere(true, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_leaves_no_payload_on_postgres_and_azure() {
    killed_everywhere(true, true).await;
}
