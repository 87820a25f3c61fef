//! Conformance suite of blob stores.

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use longhaul::blob::{BlobError, BlobPath, Blobs, JobKey, KeyCheck, Keyring, WrittenBlob};
use longhaul::{JobId, TenantId, Timestamp};
use ring::digest::{SHA256, digest};

const MIB: usize = 1024 * 1024;

/// Runs each case on one store and prints its name.
macro_rules! promises {
    ($($case:ident,)*) => {
        pub(crate) async fn every_promise(blobs: &Blobs) {
            $(
                println!("{}", stringify!($case));
                $case(blobs).await;
            )*
        }
    };
}

promises! {
    blob_of_any_size_is_read_as_it_was_written,
    range_is_what_the_whole_has_there,
    blob_that_was_never_written_is_missing,
    blob_that_was_deleted_is_missing,
    what_is_not_there_is_deleted_already,
    blob_cannot_be_read_before_it_is_finished,
    blob_that_was_given_up_is_missing,
    blob_whose_writer_was_dropped_is_missing,
    blob_of_another_size_is_damaged,
    blob_under_another_key_is_damaged,
    finished_blobs_are_listed_with_their_time,
    reader_that_stops_early_harms_nobody,
    check_leaves_nothing,
    server_with_other_keys_is_detected,
}

async fn server_with_other_keys_is_detected(blobs: &Blobs) {
    let (ours, other) = (Keyring::generate(), Keyring::generate());
    assert_eq!(blobs.check_keys(&ours).await, Ok(KeyCheck::Unmarked));
    for _ in 0..2 {
        assert_eq!(blobs.record_keys(&ours).await, Ok(KeyCheck::Fitting));
    }
    let foreign = KeyCheck::Foreign { newest: ours.current_id().to_owned() };
    assert_eq!(blobs.record_keys(&other).await, Ok(foreign));
    let listed: Vec<_> = blobs.list().try_collect().await.unwrap();
    assert!(
        listed.iter().all(|(path, _)| !path.to_string().contains("keys")),
        "no blob, no orphan"
    );
}

pub(crate) fn a_path() -> BlobPath {
    let job = JobId::from_parts(Timestamp::from_millis(1_763_000_000_000), rand::random());
    BlobPath::new(&TenantId::new("acme").unwrap(), job)
}

/// Returns bytes of which no two chunks are equal.
fn bytes(size: usize) -> Bytes {
    let pattern: Vec<u8> = (0..=250).cycle().take(65_539).collect();
    let mut bytes = pattern.repeat(size / pattern.len() + 1);
    bytes.truncate(size);
    bytes.into()
}

pub(crate) async fn write(
    blobs: &Blobs,
    path: &BlobPath,
    key: &JobKey,
    bytes: Bytes,
) -> Result<WrittenBlob, BlobError> {
    let mut writer = blobs.writer(path, key);
    writer.write(bytes).await?;
    writer.finish().await
}

pub(crate) async fn read(
    blobs: &Blobs,
    path: &BlobPath,
    key: &JobKey,
    size: usize,
) -> Result<Vec<u8>, BlobError> {
    let stream = blobs.read(path, key, size as u64, None).await?;
    Ok(stream.try_collect::<Vec<_>>().await?.concat())
}

async fn blob_of_any_size_is_read_as_it_was_written(blobs: &Blobs) {
    let key = JobKey::generate();
    // Sizes around a chunk, a reader's window and an upload's part, and several of each.
    for size in [0, 1, 65_535, 65_536, 65_537, 4 * MIB, 8 * MIB - 200, 8 * MIB, 21 * MIB + 3] {
        let (path, plain) = (a_path(), bytes(size));
        let mut writer = blobs.writer(&path, &key);
        let mut left = plain.clone();
        while !left.is_empty() {
            writer.write(left.split_to(left.len().min(100_000))).await.unwrap();
        }
        let written = writer.finish().await.unwrap();
        assert_eq!(written.size, size as u64);
        assert_eq!(written.digest[..], *digest(&SHA256, &plain).as_ref());
        assert!(read(blobs, &path, &key, size).await.unwrap() == plain, "{size} bytes differ");
    }
}

async fn range_is_what_the_whole_has_there(blobs: &Blobs) {
    let (path, key, size) = (a_path(), JobKey::generate(), 9 * MIB + 5);
    let plain = bytes(size);
    write(blobs, &path, &key, plain.clone()).await.unwrap();
    let ranges =
        [0..1, 0..0, 65_530..65_540, MIB..6 * MIB, size - 1..size, size - 1..size + 9, size..size];
    for range in ranges {
        let asked = range.start as u64..range.end as u64;
        let stream = blobs.read(&path, &key, size as u64, Some(asked)).await.unwrap();
        let found = stream.try_collect::<Vec<_>>().await.unwrap().concat();
        assert!(found == plain[range.start..range.end.min(size)], "{range:?} differs");
    }
}

async fn blob_that_was_never_written_is_missing(blobs: &Blobs) {
    let key = JobKey::generate();
    assert_eq!(read(blobs, &a_path(), &key, 5).await, Err(BlobError::Missing));
}

async fn blob_that_was_deleted_is_missing(blobs: &Blobs) {
    let (path, key) = (a_path(), JobKey::generate());
    write(blobs, &path, &key, "hello".into()).await.unwrap();
    blobs.delete(&path).await.unwrap();
    assert_eq!(read(blobs, &path, &key, 5).await, Err(BlobError::Missing));
}

async fn what_is_not_there_is_deleted_already(blobs: &Blobs) {
    assert_eq!(blobs.delete(&a_path()).await, Ok(()));
}

async fn blob_cannot_be_read_before_it_is_finished(blobs: &Blobs) {
    let (path, key) = (a_path(), JobKey::generate());
    let mut writer = blobs.writer(&path, &key);
    writer.write(bytes(10 * MIB)).await.unwrap();
    assert_eq!(read(blobs, &path, &key, 10 * MIB).await, Err(BlobError::Missing));
    writer.finish().await.unwrap();
    assert!(read(blobs, &path, &key, 10 * MIB).await.is_ok());
}

async fn blob_that_was_given_up_is_missing(blobs: &Blobs) {
    for size in [5, 10 * MIB] {
        let (path, key) = (a_path(), JobKey::generate());
        let mut writer = blobs.writer(&path, &key);
        writer.write(bytes(size)).await.unwrap();
        writer.abort().await.unwrap();
        assert_eq!(read(blobs, &path, &key, size).await, Err(BlobError::Missing));
    }
}

async fn blob_whose_writer_was_dropped_is_missing(blobs: &Blobs) {
    for size in [5, 10 * MIB] {
        let (path, key) = (a_path(), JobKey::generate());
        let mut writer = blobs.writer(&path, &key);
        writer.write(bytes(size)).await.unwrap();
        drop(writer);
        assert_eq!(read(blobs, &path, &key, size).await, Err(BlobError::Missing));
    }
}

async fn blob_of_another_size_is_damaged(blobs: &Blobs) {
    let (path, key) = (a_path(), JobKey::generate());
    write(blobs, &path, &key, bytes(100_000)).await.unwrap();
    for other in [0, 99_999, 100_001, 10 * MIB] {
        let error = read(blobs, &path, &key, other).await.unwrap_err();
        assert!(matches!(error, BlobError::Damaged(_)), "{other}: {error}");
    }
    // A range beyond the end of the object.
    let end = 10 * MIB as u64;
    let error = blobs.read(&path, &key, end, Some(end - 1..end)).await.unwrap_err();
    assert!(matches!(error, BlobError::Damaged(_)), "{error}");
}

async fn blob_under_another_key_is_damaged(blobs: &Blobs) {
    let path = a_path();
    write(blobs, &path, &JobKey::generate(), "hello".into()).await.unwrap();
    let error = read(blobs, &path, &JobKey::generate(), 5).await.unwrap_err();
    assert!(matches!(error, BlobError::Damaged(_)), "{error}");
}

async fn finished_blobs_are_listed_with_their_time(blobs: &Blobs) {
    let (path, key) = (a_path(), JobKey::generate());
    write(blobs, &path, &key, "hello".into()).await.unwrap();
    let listed: Vec<_> = blobs.list().try_collect().await.unwrap();
    let (_, written_at) = listed.iter().find(|(listed, _)| *listed == path).unwrap();
    let now = longhaul::Clock::system().now();
    // Stores report whole seconds, of their own clocks.
    assert!(now.as_millis().abs_diff(written_at.as_millis()) < 60_000, "{written_at}");
    blobs.delete(&path).await.unwrap();
    let listed: Vec<_> = blobs.list().try_collect().await.unwrap();
    assert!(listed.iter().all(|(listed, _)| *listed != path));
}

async fn reader_that_stops_early_harms_nobody(blobs: &Blobs) {
    let (path, key, size) = (a_path(), JobKey::generate(), 9 * MIB);
    write(blobs, &path, &key, bytes(size)).await.unwrap();
    let mut stream = blobs.read(&path, &key, size as u64, None).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    assert!(read(blobs, &path, &key, size).await.is_ok());
}

async fn check_leaves_nothing(blobs: &Blobs) {
    let count = async || blobs.list().try_collect::<Vec<_>>().await.unwrap().len();
    let before = count().await;
    blobs.check().await.unwrap();
    assert_eq!(count().await, before);
}
