//! Valid archives of every format, written by other libraries.

use std::io::{Cursor, Write};

use longhaul_net::archive::{ArchiveError, ArchiveFormat, ArchiveLimits, ArchiveSummary};
use zip::write::{SimpleFileOptions, ZipWriter};

use super::builders::{gz, zst};
use super::{Bench, FileTree, assert_refused, tree};

const FORMATS: [ArchiveFormat; 4] =
    [ArchiveFormat::Zip, ArchiveFormat::Tar, ArchiveFormat::TarGz, ArchiveFormat::TarZst];

/// Packs with other libraries.
pub(super) fn pack(files: &FileTree, format: ArchiveFormat) -> Vec<u8> {
    match format {
        ArchiveFormat::Zip => zip_of(files),
        ArchiveFormat::Tar => tar_of(files),
        ArchiveFormat::TarGz => gz(&tar_of(files)),
        ArchiveFormat::TarZst => zst(&tar_of(files)),
    }
}

fn zip_of(files: &FileTree) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (n, (path, content)) in files.iter().enumerate() {
        let method = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated][n % 2];
        let options = SimpleFileOptions::default().compression_method(method);
        match content {
            Some(content) => {
                writer.start_file(path.as_str(), options.large_file(n % 3 == 0)).unwrap();
                writer.write_all(content).unwrap();
            }
            None => writer.add_directory(path.as_str(), options).unwrap(),
        }
    }
    writer.finish().unwrap().into_inner()
}

fn tar_of(files: &FileTree) -> Vec<u8> {
    let mut builder = ::tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = ::tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(content.as_ref().map_or(0, Vec::len) as u64);
        if content.is_none() {
            header.set_entry_type(::tar::EntryType::Directory);
        }
        let content = content.as_deref().unwrap_or_default();
        builder.append_data(&mut header, path, content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Packs, unpacks, and compares.
pub(super) fn round_trip(files: &FileTree, format: ArchiveFormat) {
    let bench = Bench::new(&pack(files, format));
    let summary = bench.extract(&ArchiveLimits::default()).unwrap();
    assert_eq!(&tree(&bench.path("into")), files);
    let contents = files.values().flatten();
    let expected = ArchiveSummary {
        format,
        files: contents.clone().count() as u64,
        folders: files.values().filter(|content| content.is_none()).count() as u64,
        bytes: contents.map(Vec::len).sum::<usize>() as u64,
    };
    assert_eq!(summary, expected);
}

#[test]
fn every_format_round_trips() {
    let long = "long".repeat(50);
    let files = FileTree::from([
        ("README.md".to_owned(), Some(b"# Read me".to_vec())),
        ("empty".to_owned(), None),
        ("src".to_owned(), None),
        ("src/grün".to_owned(), None),
        ("src/grün/日本.txt".to_owned(), Some(vec![])),
        ("src/large".to_owned(), Some(b"0123456789".repeat(30_000))),
        (format!("src/{long}"), Some(b"long".to_vec())),
    ]);
    for format in FORMATS {
        round_trip(&files, format);
    }
}

#[test]
fn empty_archive_extracts_nothing() {
    for format in [ArchiveFormat::Zip, ArchiveFormat::TarGz, ArchiveFormat::TarZst] {
        round_trip(&FileTree::new(), format);
    }
}

#[test]
fn file_that_is_no_archive_is_rejected() {
    let mut rar = b"Rar!\x1a\x07\x01\0".to_vec();
    rar.resize(1_000, 7);
    for bytes in [&b""[..], b"P", b"#!/bin/sh", &[0; 10_240], &rar, b"7z\xbc\xaf\x27\x1c"] {
        assert_refused!(bytes, ArchiveError::UnknownFormat);
    }
    for packed in [gz(&[b' '; 2_000]), zst(&[b' '; 2_000])] {
        assert_refused!(&packed, ArchiveError::UnknownFormat);
    }
}
