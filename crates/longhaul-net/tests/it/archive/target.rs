//! The folder that is unpacked into.

use std::cell::Cell;
use std::fs;
use std::io::{self, Cursor};
use std::os::unix::fs::symlink;

use longhaul_net::archive::{ArchiveError, Entry, Limits, entries, extract};

use super::make::{deflated, gz, stored, tar, tar_entry, zip};
use super::{Bench, Tree, mode, tree, unpacked};

#[test]
fn files_and_folders_are_for_the_owner_alone() {
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
        bench.extract(&Limits::default()).unwrap();
        for (name, expected) in
            [("listed", 0o700), ("named", 0o700), ("run.sh", 0o600), ("named/file", 0o600)]
        {
            assert_eq!(mode(&bench.path("into").join(name)), expected, "{name}");
        }
    }
}

#[test]
fn folder_that_is_not_empty_is_left_alone() {
    let bench = Bench::new(&zip(&[stored("a", b"1")]));
    symlink("/tmp", bench.path("into").join("a")).unwrap();
    let refused =
        extract(&bench.path("archive"), &bench.path("into"), &Limits::default(), &|| false);
    assert!(matches!(refused, Err(ArchiveError::TargetNotEmpty)));
    assert!(bench.path("into").join("a").is_symlink());
}

#[test]
fn folder_that_is_not_there_is_not_made() {
    let bench = Bench::new(&zip(&[stored("a", b"1")]));
    let refused =
        extract(&bench.path("archive"), &bench.path("other"), &Limits::default(), &|| false);
    assert!(matches!(refused, Err(ArchiveError::Target(_))));
    assert!(!bench.path("other").exists());
}

/// Nobody should be able to write there, but if somebody does, nothing leads out.
#[test]
fn links_that_somebody_puts_in_the_way_are_not_followed() {
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
        let refused = extract(&bench.path("archive"), &into, &Limits::default(), &link);
        assert!(matches!(refused, Err(ArchiveError::Write { .. })), "{refused:?}");
        assert!(linked.get());
        assert_eq!(tree(&outside.path().join("x")), Tree::new());
        assert_eq!(tree(&into), Tree::new());
    }
}

#[test]
fn cancel_leaves_nothing_behind() {
    let content = vec![7; 1 << 20];
    let zipped = zip(&[stored("a", &content), deflated("b", &content)]);
    let tarred = gz(&tar(&[tar_entry(b'0', "a", &content)]));
    for archive in [zipped, tarred] {
        // At every place where it is asked, but for the many in the middle.
        for patience in (0..20).chain([30]) {
            let bench = Bench::new(&archive);
            let asked = Cell::new(0);
            let cancelled = || asked.replace(asked.get() + 1) >= patience;
            let (file, into) = (bench.path("archive"), bench.path("into"));
            match extract(&file, &into, &Limits::default(), &cancelled) {
                Err(ArchiveError::Cancelled) => assert_eq!(tree(&into), Tree::new()),
                other => assert!(other.is_ok() && asked.get() <= patience, "{other:?}"),
            }
        }
    }
}

#[test]
fn content_that_nobody_reads_is_checked_all_the_same() {
    let entry = deflated("a", b"content").both(|said| said.crc ^= 1);
    let archive = zip(&[entry]);
    let limits = Limits::default();
    let refused = entries(Cursor::new(&archive), &limits, &|| false, &mut |_| Ok(()));
    assert!(matches!(refused, Err(ArchiveError::WrongChecksum { .. })));
}

#[test]
fn archive_does_not_become_good_by_a_reader_who_overlooks_errors() {
    let archive = zip(&[deflated("a", b"content").both(|said| said.unpacked -= 1)]);
    let limits = Limits::default();
    let refused = entries(Cursor::new(&archive), &limits, &|| false, &mut |entry| {
        if let Entry::File { content, .. } = entry {
            content.read_to_end(&mut Vec::new()).unwrap_err();
        }
        Ok(())
    });
    assert!(matches!(refused, Err(ArchiveError::WrongSize { declared: 6, found: 7, .. })));
}

#[test]
fn error_of_who_gets_the_entries_ends_it() {
    let archive = zip(&[stored("a", b"1"), stored("b", b"2")]);
    let limits = Limits::default();
    let mut seen = 0;
    let ended = entries(Cursor::new(&archive), &limits, &|| false, &mut |_| {
        seen += 1;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert!(matches!(&ended, Err(error @ ArchiveError::Write { .. }) if error.may_pass()));
    assert_eq!(seen, 1);
}

#[test]
fn entries_come_in_the_order_of_the_file() {
    // The directory lists them the other way round.
    let (first, second) = (stored("first", b"1"), stored("second", b"2"));
    let bytes = [first.local_bytes(), second.local_bytes()];
    let offset = u32::try_from(bytes[0].len()).unwrap();
    let directory = [second.central_bytes(offset), first.central_bytes(0)].concat();
    let at = bytes.concat().len();
    let end = super::make::end(2, directory.len(), at, b"");
    let archive = [bytes.concat(), directory, end].concat();
    let mut seen = Vec::new();
    let limits = Limits::default();
    entries(Cursor::new(&archive), &limits, &|| false, &mut |entry| {
        if let Entry::File { path, bytes: 1, .. } = entry {
            seen.push(path.to_owned());
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, ["first", "second"]);
    assert_eq!(unpacked(&archive).len(), 2);
}
