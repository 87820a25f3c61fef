//! Archives that are small and would not stay so.

use std::io::Cursor;

use longhaul_net::archive::{ArchiveError, Limits, entries};

use super::make::{deflated, end, stored, zip};
use super::{Bench, assert_refused, refused_by, unpacked};

/// After David Fifield's: one block of zeros, which every entry of the directory points to.
#[test]
fn entries_that_share_their_content_are_refused() {
    let kernel = deflated("0", &vec![0; 1 << 20]);
    let entries = kernel.local_bytes();
    let list: Vec<_> = (0..1_000)
        .map(|n| {
            let name = n.to_string().into_bytes();
            let mut entry = kernel.clone().both(|said| said.name.clone_from(&name));
            entry.offset = Some(0);
            entry.central_bytes(0)
        })
        .collect();
    let directory = list.concat();
    let end = end(1_000, directory.len(), entries.len(), b"");
    let archive = [entries, directory, end].concat();
    // Whatever the limits are.
    let limits = Limits { ratio_max: u64::MAX, bytes_max: u64::MAX, ..Limits::default() };
    let error = refused_by(&archive, &limits);
    assert!(matches!(error, ArchiveError::Overlap { .. }), "{error:?}");
    assert_refused!(&archive, ArchiveError::RatioTooHigh { .. });
}

/// The better form of it: each entry's content is the next entry with its header.
#[test]
fn entries_that_quote_one_another_are_refused() {
    let (good, mut inner) = (stored("good", b"1"), stored("inner", &[0; 1_000]));
    let outer = stored("outer", &inner.local_bytes());
    let bytes = [good.local_bytes(), outer.local_bytes()].concat();
    let outer_at = good.local_bytes().len().try_into().unwrap();
    inner.offset = Some((bytes.len() - inner.local_bytes().len()).try_into().unwrap());
    let list = [good.central_bytes(0), outer.central_bytes(outer_at), inner.central_bytes(0)];
    let directory = list.concat();
    let end = end(3, directory.len(), bytes.len(), b"");
    let archive = [bytes, directory, end].concat();
    assert_refused!(&archive, ArchiveError::Overlap { .. });
    // By the directory alone: not even the good one is unpacked.
    let limits = Limits::default();
    let refused = entries(Cursor::new(&archive), &limits, &|| false, &mut |_| panic!("unpacked"));
    assert!(matches!(refused, Err(ArchiveError::Overlap { .. })));
}

/// Like 42.zip, which unpacks to petabytes in five layers.
#[test]
fn archive_in_an_archive_stays_packed() {
    let mut layer = zip(&[deflated("zeros", &vec![0; 1 << 20])]);
    for _ in 0..4 {
        let copies: Vec<_> = (0..16).map(|n| deflated(format!("{n}.zip"), &layer)).collect();
        layer = zip(&copies);
    }
    let tree = unpacked(&layer);
    assert_eq!(tree.len(), 16);
    assert!(tree.values().all(|content| content.as_ref().unwrap().starts_with(b"PK")));
}

#[test]
fn size_that_lies_does_not_get_a_bomb_through() {
    let entry = deflated("zeros", &vec![0; 8 << 20]).both(|said| said.unpacked = 1_000);
    assert_refused!(&zip(&[entry]), ArchiveError::WrongSize { declared: 1_000, .. });
}

#[test]
fn folders_that_nobody_lists_are_counted() {
    let entries: Vec<_> =
        (0..20).map(|n| stored(format!("{n}/{}", "d/".repeat(50) + "f"), b"")).collect();
    let limits = Limits { entries_max: 500, ..Limits::default() };
    let error = refused_by(&zip(&entries), &limits);
    assert!(matches!(error, ArchiveError::TooManyEntries { limit: 500, .. }), "{error:?}");
    Bench::new(&zip(&entries)).extract(&Limits::default()).unwrap();
}
