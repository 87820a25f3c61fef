//! Good archives with a few bytes changed: refused, or unpacked as others would, but never past a
//! limit, never out of the folder, and never with a panic.
//!
//! `make test` tries some, `make fuzz` lets libFuzzer look for more.

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use longhaul_net::archive::{Entry, Format, Limits, entries};
use proptest::prelude::*;
use proptest::sample::Index;

use super::formats::pack;
use super::make::{deflated, pax, stored, tar, tar_entry, zip};
use super::{Bench, Tree};

const LIMITS: Limits = Limits {
    bytes_max: 20_000,
    file_bytes_max: 10_000,
    entries_max: 20,
    ratio_max: 50,
    depth_max: 5,
    path_bytes_max: 300,
};

fn corpus() -> Vec<Vec<u8>> {
    let files = Tree::from([
        ("a.txt".to_owned(), Some(b"some text ".repeat(50))),
        ("folder".to_owned(), None),
        ("folder/b.bin".to_owned(), Some(vec![0; 600])),
        (format!("folder/{}", "long".repeat(40)), Some(b"long".to_vec())),
    ]);
    let formats = [Format::Zip, Format::Tar, Format::TarGz, Format::TarZst];
    let mut corpus: Vec<_> = formats.map(|format| pack(&files, format)).into();
    corpus.push(zip(&[stored("x/", b""), deflated("x/y", b"yyyyyyyy"), stored("z", b"z")]));
    let header = tar_entry(b'x', "pax", &[pax("path", "p/q"), pax("size", "3")].concat());
    let global = tar_entry(b'g', "global", &pax("comment", "c"));
    corpus.push(tar(&[global, header, tar_entry(b'0', "cut", b"123")]));
    corpus
}

/// What may happen to a byte, or to all behind it.
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

/// Reads all that comes out, holds it to the limits, and compares it with what others read.
fn read(bytes: &[u8]) {
    let (mut total, mut count, mut seen) = (0, 0, Tree::new());
    let result = entries(Cursor::new(bytes), &LIMITS, &|| false, &mut |entry| {
        count += 1;
        let path = match entry {
            Entry::Folder { path } => {
                seen.insert(path.to_owned(), None);
                path
            }
            Entry::File { path, content, .. } => {
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
    let Ok(extracted) = result else { return };
    assert_eq!(extracted.bytes, total);
    if let Some(others) = seen_by_others(bytes, extracted.format) {
        assert_eq!(seen, others);
    }
}

/// What the libraries make of it, if they do not refuse it.
fn seen_by_others(bytes: &[u8], format: Format) -> Option<Tree> {
    let mut source: Box<dyn Read> = match format {
        Format::Zip => return unzipped_by_others(bytes).ok(),
        Format::Tar => Box::new(bytes),
        Format::TarGz => Box::new(MultiGzDecoder::new(bytes)),
        Format::TarZst => Box::new(zstd::Decoder::new(bytes).ok()?),
    };
    let mut seen = Tree::new();
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

fn unzipped_by_others(bytes: &[u8]) -> Result<Tree, ::zip::result::ZipError> {
    let mut archive = ::zip::ZipArchive::new(Cursor::new(bytes))?;
    let mut seen = Tree::new();
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
    fn changed_archive_stays_within_limits(
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

/// Not by chance: one bit after the other, but for some of those in the long ones.
#[test]
fn one_bit_is_never_too_much() {
    for archive in corpus() {
        for at in (0..archive.len()).step_by(1 + archive.len() / 1_000) {
            let mut bytes = archive.clone();
            bytes[at] ^= 1 << (at % 8);
            read(&bytes);
        }
    }
}

#[test]
fn archives_to_be_changed_are_good() {
    for archive in corpus() {
        Bench::new(&archive).extract(&LIMITS).unwrap();
    }
}

/// `make fuzz` begins with these.
#[test]
fn archives_to_be_changed_are_written_where_the_fuzzer_looks() {
    let Some(folder) = std::env::var_os("LONGHAUL_FUZZ_CORPUS") else { return };
    for (n, archive) in corpus().iter().enumerate() {
        fs::write(Path::new(&folder).join(n.to_string()), archive).unwrap();
    }
}
