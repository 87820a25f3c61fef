//! The folder to extract into.

use std::cell::Cell;
use std::fs;
use std::io::{self, Cursor};
use std::os::unix::fs::symlink;

use longhaul_net::archive::{ArchiveEntry, ArchiveError, ArchiveLimits, entries, extract};

use super::builders::{deflated, gz, stored, tar, tar_entry, zip};
use super::{Bench, FileTree, mode, tree, unpacked};

#[test]
fn extracted_files_are_for_the_owner_only() {
    let folder = stored("listed/", b"").attributes(0o040_777 << 16);
    let program = stored("run.sh", b"#!/bin/sh").attributes(0o104_777 << 16);
    let zipped = zip(&[folder, program, stored("named/file", b"")]);
    let tarred = tar(&[
        tar_entry(b'5', "listed", b""),
        tar_entry(b'0', "run.sh", b"#!/bin/sh"),
        tar_entry(b'0', "named/file", b""),
    ]);
    for archive in [zipped, tarred] {
        let bench = Bench::new(&archive);
        bench.extract(&ArchiveLimits::default()).unwrap();
        for (name, expected) in
            [("listed", 0o700), ("named", 0o700), ("run.sh", 0o600), ("named/file", 0o600)]
        {
            assert_eq!(mode(&bench.path("into").join(name)), expected, "{name}");
        }
    }
}

#[test]
fn non_empty_extract_dir_is_rejected_and_untouched() {
    let bench = Bench::new(&zip(&[stored("a", b"1")]));
    symlink("/tmp", bench.path("into").join("a")).unwrap();
    let rejected =
        extract(&bench.path("archive"), &bench.path("into"), &ArchiveLimits::default(), &|| false);
    assert!(matches!(rejected, Err(ArchiveError::ExtractDirNotEmpty)));
    assert!(bench.path("into").join("a").is_symlink());
}

#[test]
fn missing_extract_dir_is_not_created() {
    let bench = Bench::new(&zip(&[stored("a", b"1")]));
    let rejected =
        extract(&bench.path("archive"), &bench.path("other"), &ArchiveLimits::default(), &|| false);
    assert!(matches!(rejected, Err(ArchiveError::ExtractDir(_))));
    assert!(!bench.path("other").exists());
}

/// No other process should write there; if one does, no path leaves the folder.
#[test]
fn links_in_the_extract_dir_are_not_followed() {
    for name in ["a", "a/b"] {
        let bench = Bench::new(&zip(&[stored("first", b""), stored(name, b"1")]));
        let (into, outside) = (bench.path("into"), tempfile::tempdir().unwrap());
        let linked = Cell::new(false);
        let link = || {
            if into.join("first").exists() && !linked.replace(true) {
                symlink(outside.path().join("x"), into.join("a")).unwrap();
                fs::create_dir(outside.path().join("x")).unwrap();
            }
            false
        };
        let rejected = extract(&bench.path("archive"), &into, &ArchiveLimits::default(), &link);
        assert!(matches!(rejected, Err(ArchiveError::Write { .. })), "{rejected:?}");
        assert!(linked.get());
        assert_eq!(tree(&outside.path().join("x")), FileTree::new());
        assert_eq!(tree(&into), FileTree::new());
    }
}

#[test]
fn cancelled_extraction_leaves_no_files() {
    let content = vec![7; 1 << 20];
    let zipped = zip(&[stored("a", &content), deflated("b", &content)]);
    let tarred = gz(&tar(&[tar_entry(b'0', "a", &content)]));
    for archive in [zipped, tarred] {
        // At every location where it is asked, but for the many in the middle.
        for patience in (0..20).chain([30]) {
            let bench = Bench::new(&archive);
            let asked = Cell::new(0);
            let cancelled = || asked.replace(asked.get() + 1) >= patience;
            let (file, into) = (bench.path("archive"), bench.path("into"));
            match extract(&file, &into, &ArchiveLimits::default(), &cancelled) {
                Err(ArchiveError::Cancelled) => assert_eq!(tree(&into), FileTree::new()),
                other => assert!(other.is_ok() && asked.get() <= patience, "{other:?}"),
            }
        }
    }
}

#[test]
fn unread_content_is_checked() {
    let entry = deflated("a", b"content").both(|record_values| record_values.crc ^= 1);
    let archive = zip(&[entry]);
    let limits = ArchiveLimits::default();
    let rejected = entries(Cursor::new(&archive), &limits, &|| false, &mut |_| Ok(()));
    assert!(matches!(rejected, Err(ArchiveError::WrongChecksum { .. })));
}

#[test]
fn ignored_read_error_still_rejects_the_archive() {
    let archive =
        zip(&[deflated("a", b"content").both(|record_values| record_values.unpacked -= 1)]);
    let limits = ArchiveLimits::default();
    let rejected = entries(Cursor::new(&archive), &limits, &|| false, &mut |entry| {
        if let ArchiveEntry::File { content, .. } = entry {
            content.read_to_end(&mut Vec::new()).unwrap_err();
        }
        Ok(())
    });
    assert!(matches!(rejected, Err(ArchiveError::WrongSize { declared: 6, found: 7, .. })));
}

#[test]
fn consumer_error_ends_the_reading() {
    let archive = zip(&[stored("a", b"1"), stored("b", b"2")]);
    let limits = ArchiveLimits::default();
    let mut seen = 0;
    let ended = entries(Cursor::new(&archive), &limits, &|| false, &mut |_| {
        seen += 1;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert!(matches!(&ended, Err(error @ ArchiveError::Write { .. }) if error.is_retryable()));
    assert_eq!(seen, 1);
}

#[test]
fn entries_are_read_in_file_order() {
    // The directory lists them the other way round.
    let (first, second) = (stored("first", b"1"), stored("second", b"2"));
    let bytes = [first.local_bytes(), second.local_bytes()];
    let offset = u32::try_from(bytes[0].len()).unwrap();
    let directory = [second.central_bytes(offset), first.central_bytes(0)].concat();
    let at = bytes.concat().len();
    let end = super::builders::end(2, directory.len(), at, b"");
    let archive = [bytes.concat(), directory, end].concat();
    let mut seen = Vec::new();
    let limits = ArchiveLimits::default();
    entries(Cursor::new(&archive), &limits, &|| false, &mut |entry| {
        if let ArchiveEntry::File { path, bytes: 1, .. } = entry {
            seen.push(path.to_owned());
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, ["first", "second"]);
    assert_eq!(unpacked(&archive).len(), 2);
}
