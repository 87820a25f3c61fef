//! A cloud store that fails, hangs or rejects requests.

use std::time::Duration;

use longhaul::blob::{BlobError, Blobs, CloudOptions, JobKey, RequestPolicy};

use super::servers::s3_options;
use super::stub::Answer::{Hangup, Nothing, Status};
use super::stub::Stub;
use super::suite::{a_path, read, write};

/// Returns options with enough retries and short delays.
fn quick() -> CloudOptions {
    let pause = Duration::from_millis(1);
    let requests =
        RequestPolicy { backoff_initial: pause, backoff_max: pause, ..RequestPolicy::default() };
    CloudOptions { requests, ..CloudOptions::default() }
}

async fn write_hello(blobs: &Blobs) -> Result<(), BlobError> {
    write(blobs, &a_path(), &JobKey::generate(), "hello".into()).await.map(|_| ())
}

#[tokio::test]
async fn blob_request_that_fails_twice_is_sent_three_times() {
    let stub = Stub::answering([Status(500, ""), Status(503, ""), Status(200, "")]).await;
    assert_eq!(write_hello(&stub.open(&quick())).await, Ok(()));
    assert_eq!(stub.asked(), 3);
}

#[tokio::test]
async fn blob_store_connection_is_reopened() {
    let stub = Stub::answering([Hangup, Status(200, "")]).await;
    assert_eq!(write_hello(&stub.open(&quick())).await, Ok(()));
    assert_eq!(stub.asked(), 2);
}

#[tokio::test]
async fn blob_store_that_keeps_failing_is_unavailable() {
    let stub = Stub::answering([Status(503, "<Error><Code>SlowDown</Code></Error>")]).await;
    let said = "it answered 503 (SlowDown)".to_owned();
    assert_eq!(write_hello(&stub.open(&quick())).await, Err(BlobError::Unavailable(said)));
    assert_eq!(stub.asked(), 4);
}

#[tokio::test]
async fn blob_request_times_out() {
    let stub = Stub::answering([Nothing]).await;
    let mut options = quick();
    options.requests.request_timeout = Duration::from_millis(100);
    options.requests.retries_max = 1;
    let error = write_hello(&stub.open(&options)).await.unwrap_err();
    assert!(matches!(&error, BlobError::Unavailable(why) if why.contains("timed out")), "{error}");
    assert_eq!(stub.asked(), 2);
}

#[tokio::test]
async fn missing_blob_is_not_retried() {
    let stub = Stub::answering([Status(404, "<Error><Code>NoSuchKey</Code></Error>")]).await;
    let blobs = stub.open(&quick());
    assert_eq!(read(&blobs, &a_path(), &JobKey::generate(), 5).await, Err(BlobError::Missing));
    assert_eq!(stub.asked(), 1);
}

#[tokio::test]
async fn rejected_blob_request_is_final_and_reveals_no_secret() {
    let body = "<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>AKIAEXAMPLE\
                </AWSAccessKeyId><StringToSign>topsecret</StringToSign></Error>";
    let stub = Stub::answering([Status(403, body)]).await;
    let said = "not permitted (SignatureDoesNotMatch)".to_owned();
    assert_eq!(write_hello(&stub.open(&quick())).await, Err(BlobError::Refused(said)));
    assert_eq!(stub.asked(), 1);
}

#[tokio::test]
async fn unreachable_blob_store_is_unavailable() {
    let address = "s3://bucket?endpoint=http://127.0.0.1:1&allow_http=true";
    let options = CloudOptions { variables: s3_options("topsecret").variables, ..quick() };
    let error = write_hello(&Blobs::open_with(address, &options).unwrap()).await.unwrap_err();
    assert!(matches!(&error, BlobError::Unavailable(why) if why.contains("refused")), "{error}");
    assert!(!format!("{options:?}{error:?}").contains("topsecret"));
}

#[tokio::test]
async fn blob_cannot_be_finished_after_a_failed_part() {
    // The upload starts, and its parts fail.
    let begun = "<InitiateMultipartUploadResult><UploadId>1</UploadId>\
                 </InitiateMultipartUploadResult>";
    let stub = Stub::answering([Status(200, begun), Status(403, "")]).await;
    let (blobs, key) = (stub.open(&quick()), JobKey::generate());
    let mut writer = blobs.writer(&a_path(), &key);
    let mut failed = None;
    for _ in 0..8 {
        if let Err(error) = writer.write(vec![1; 8 * 1024 * 1024].into()).await {
            failed = Some(error);
            break;
        }
    }
    assert!(matches!(failed, Some(BlobError::Refused(_))), "{failed:?}");
    assert!(matches!(writer.write("more".into()).await, Err(BlobError::Unavailable(_))));
    assert!(matches!(writer.finish().await, Err(BlobError::Unavailable(_))));
}
