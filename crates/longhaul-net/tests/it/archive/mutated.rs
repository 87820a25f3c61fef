//! Valid archives with a few bytes changed: rejected, or read as other libraries do, but never past a
//! limit, never outside of the folder, and never with a panic.
//!
//! `make test` tries some, `make fuzz` searches for more.

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use longhaul_net::archive::{ArchiveEntry, ArchiveFormat, ArchiveLimits, entries};
use proptest::prelude::*;
use proptest::sample::Index;

use super::builders::{deflated, pax, stored, tar, tar_entry, zip};
use super::formats::pack;
use super::{Bench, FileTree};

const LIMITS: ArchiveLimits = ArchiveLimits {
    bytes_max: 20_000,
    file_bytes_max: 10_000,
    entries_max: 20,
    ratio_max: 50,
    depth_max: 5,
    path_bytes_max: 300,
};

fn corpus() -> Vec<Vec<u8>> {
    let files = FileTree::from([
        ("a.txt".to_owned(), Some(b"some text ".repeat(50))),
        ("folder".to_owned(), None),
        ("folder/b.bin".to_owned(), Some(vec![0; 600])),
        (format!("folder/{}", "long".repeat(40)), Some(b"long".to_vec())),
    ]);
    let formats =
        [ArchiveFormat::Zip, ArchiveFormat::Tar, ArchiveFormat::TarGz, ArchiveFormat::TarZst];
    let mut corpus: Vec<_> = formats.map(|format| pack(&files, format)).into();
    corpus.push(zip(&[stored("x/", b""), deflated("x/y", b"yyyyyyyy"), stored("z", b"z")]));
    let header = tar_entry(b'x', "pax", &[pax("path", "p/q"), pax("size", "3")].concat());
    let global = tar_entry(b'g', "global", &pax("comment", "c"));
    corpus.push(tar(&[global, header, tar_entry(b'0', "cut", b"123")]));
    corpus
}

/// Mutation of a byte, or of all bytes behind it.
#[derive(Debug, Clone)]
enum Change {
    Flip(Index, u8),
    Set(Index, u8),
    Cut(Index),
    Repeat(Index, Index),
}

impl Change {
    fn on(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        if length == 0 {
            return;
        }
        match self {
            Self::Flip(at, bit) => bytes[at.index(length)] ^= 1 << (bit % 8),
            Self::Set(at, value) => bytes[at.index(length)] = *value,
            Self::Cut(at) => bytes.truncate(at.index(length)),
            Self::Repeat(from, to) => {
                let (from, to) = (from.index(length), to.index(length));
                let piece = bytes[from.min(to)..from.max(to)].to_vec();
                bytes.splice(to..to, piece);
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let edge = prop_oneof![Just(0_u8), Just(0xff), Just(b'/'), Just(b'.'), any::<u8>()];
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, bit)| Change::Flip(at, bit)),
        4 => (any::<Index>(), edge).prop_map(|(at, value)| Change::Set(at, value)),
        1 => any::<Index>().prop_map(Change::Cut),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Repeat(from, to)),
    ]
}

/// Reads an archive, checks the limits and compares with other libraries.
fn read(bytes: &[u8]) {
    let (mut total, mut count, mut seen) = (0, 0, FileTree::new());
    let result = entries(Cursor::new(bytes), &LIMITS, &|| false, &mut |entry| {
        count += 1;
        let path = match entry {
            ArchiveEntry::Folder { path } => {
                seen.insert(path.to_owned(), None);
                path
            }
            ArchiveEntry::File { path, content, .. } => {
                let mut unpacked = Vec::new();
                let read = content.read_to_end(&mut unpacked);
                assert!(unpacked.len() as u64 <= LIMITS.file_bytes_max);
                total += unpacked.len() as u64;
                read?;
                seen.insert(path.to_owned(), Some(unpacked));
                path
            }
        };
        assert!(path.len() as u64 <= LIMITS.path_bytes_max);
        assert!(path.split('/').all(|name| !["", ".", ".."].contains(&name)), "{path:?}");
        Ok(())
    });
    assert!(total <= LIMITS.bytes_max && count <= LIMITS.entries_max);
    let Ok(summary) = result else { return };
    assert_eq!(summary.bytes, total);
    if let Some(others) = read_by_libraries(bytes, summary.format) {
        assert_eq!(seen, others);
    }
}

/// Reads it with other libraries, if they accept it.
fn read_by_libraries(bytes: &[u8], format: ArchiveFormat) -> Option<FileTree> {
    let mut source: Box<dyn Read> = match format {
        ArchiveFormat::Zip => return unzipped_by_library(bytes).ok(),
        ArchiveFormat::Tar => Box::new(bytes),
        ArchiveFormat::TarGz => Box::new(MultiGzDecoder::new(bytes)),
        ArchiveFormat::TarZst => Box::new(zstd::Decoder::new(bytes).ok()?),
    };
    let mut seen = FileTree::new();
    for entry in ::tar::Archive::new(&mut source).entries().ok()? {
        let mut entry = entry.ok()?;
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            continue;
        }
        let path = String::from_utf8(entry.path_bytes().into_owned()).ok()?;
        let content = if kind.is_dir() { None } else { Some(read_all(&mut entry).ok()?) };
        seen.insert(plain(&path), content);
    }
    Some(seen)
}

fn unzipped_by_library(bytes: &[u8]) -> Result<FileTree, ::zip::result::ZipError> {
    let mut archive = ::zip::ZipArchive::new(Cursor::new(bytes))?;
    let mut seen = FileTree::new();
    for n in 0..archive.len() {
        let mut file = archive.by_index(n)?;
        let path = plain(&file.name()?);
        let content = if file.is_dir() { None } else { Some(read_all(&mut file)?) };
        seen.insert(path, content);
    }
    Ok(seen)
}

fn plain(path: &str) -> String {
    path.trim_start_matches("./").trim_end_matches('/').to_owned()
}

fn read_all(source: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    Ok(bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_archive_stays_within_limits(
        which in any::<Index>(),
        changes in proptest::collection::vec(change(), 1..6),
    ) {
        let mut bytes = which.get(&corpus()).clone();
        for change in &changes {
            change.on(&mut bytes);
        }
        read(&bytes);
        // `Bench` checks that nothing is outside, nor inside after a refusal.
        Bench::new(&bytes).extract(&LIMITS).ok();
    }
}

/// Exhaustive for short archives, sampled for long ones.
#[test]
fn single_bit_flips_stay_within_limits() {
    for archive in corpus() {
        for at in (0..archive.len()).step_by(1 + archive.len() / 1_000) {
            let mut bytes = archive.clone();
            bytes[at] ^= 1 << (at % 8);
            read(&bytes);
        }
    }
}

#[test]
fn mutation_corpus_is_valid() {
    for archive in corpus() {
        Bench::new(&archive).extract(&LIMITS).unwrap();
    }
}

/// Seeds of `make fuzz`.
#[test]
fn mutation_corpus_is_written_where_the_fuzzer_looks() {
    let Some(folder) = std::env::var_os("LONGHAUL_FUZZ_CORPUS") else { return };
    for (n, archive) in corpus().iter().enumerate() {
        fs::write(Path::new(&folder).join(n.to_string()), archive).unwrap();
    }
}
