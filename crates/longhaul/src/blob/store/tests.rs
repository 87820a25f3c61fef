//! Tests of the directory backend. Tests of all backends are in `tests/it/blob/`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;
use crate::blob::layout::CHUNK_BYTES;

fn a_path() -> BlobPath {
    BlobPath::new(&TenantId::default(), JobId::from_parts(Timestamp::from_millis(0), 7))
}

fn open(folder: &Path) -> Blobs {
    Blobs::open(&format!("file:{}", folder.display())).unwrap()
}

/// Returns every file below a directory.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.path() {
            folder if folder.is_dir() => found.extend(files(&folder)),
            file => found.push(file.file_name().unwrap().to_str().unwrap().to_owned()),
        }
    }
    found
}

/// Waits for an effect of another thread that sends no signal.
async fn until(what: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if what() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("waited in vain");
}

#[tokio::test]
async fn folder_is_made_and_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/blobs");
    assert_eq!(open(&inner).check().await, Ok(DeletedBlobs::Nothing));
    assert_eq!(std::fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(std::fs::read_dir(&inner).unwrap().next().is_none(), "a check leaves nothing");
}

#[tokio::test]
async fn folder_that_cannot_be_made_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Blobs::open(&format!("file:{}/blobs", file.display())).unwrap_err();
    assert!(matches!(error, BlobError::Refused(_)), "{error}");
}

#[tokio::test]
async fn writer_that_is_dropped_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (blobs, path, key) = (open(folder.path()), a_path(), JobKey::generate());
    let mut writer = blobs.writer(&path, &key);
    writer.write(vec![1; 3 * 1024 * 1024].into()).await.unwrap();
    assert_eq!(files(folder.path()).len(), 1);
    let listed: Vec<_> = blobs.list().try_collect().await.unwrap();
    assert!(listed.is_empty(), "it cannot be seen before it is whole");
    drop(writer);
    until(|| files(folder.path()).is_empty()).await;
}

#[tokio::test]
async fn what_a_killed_process_left_is_swept_once_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let (blobs, path) = (open(folder.path()), a_path());
    let left = folder.path().join(format!("{path}#1"));
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::write(&left, "half of a blob").unwrap();
    std::fs::write(left.with_file_name("notes#1"), "not ours").unwrap();
    assert_eq!(blobs.sweep_unfinished(Timestamp::from_millis(0)).await, Ok(0));
    assert_eq!(blobs.sweep_unfinished(Timestamp::MAX).await, Ok(1));
    assert_eq!(files(folder.path()), ["notes#1"]);
}

#[tokio::test]
async fn file_that_was_cut_changed_or_exchanged_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (blobs, path, key) = (open(folder.path()), a_path(), JobKey::generate());
    let size = 3 * CHUNK_BYTES as u64;
    let mut writer = blobs.writer(&path, &key);
    writer.write(vec![1; 3 * CHUNK_BYTES].into()).await.unwrap();
    writer.finish().await.unwrap();
    let file = folder.path().join(path.to_string());
    let sealed = std::fs::read(&file).unwrap();
    let damaged = async |range: Option<Range<u64>>| {
        let read = async {
            let stream = blobs.read(&path, &key, size, range).await?;
            stream.try_collect::<Vec<_>>().await
        };
        matches!(read.await, Err(BlobError::Damaged(_)))
    };
    assert!(!damaged(None).await);
    for cut in [0, 10, 21, 70_000, sealed.len() - 1] {
        std::fs::write(&file, &sealed[..cut]).unwrap();
        assert!(damaged(None).await, "cut at {cut}");
        assert!(damaged(Some(size - 10..size)).await, "cut at {cut}");
    }
    let mut changed = sealed.clone();
    changed[100_000] ^= 1;
    std::fs::write(&file, &changed).unwrap();
    assert!(damaged(None).await);
    assert!(!damaged(Some(0..10)).await, "that chunk is whole");
}
