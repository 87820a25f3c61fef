//! Zip bombs.

use std::io::Cursor;

use longhaul_net::archive::{ArchiveError, ArchiveLimits, entries};

use super::builders::{deflated, end, stored, zip};
use super::{Bench, assert_refused, rejected_by, unpacked};

/// After David Fifield: one block of zeros that every entry of the directory points to.
#[test]
fn zip_entries_that_share_content_are_rejected() {
    let kernel = deflated("0", &vec![0; 1 << 20]);
    let entries = kernel.local_bytes();
    let list: Vec<_> = (0..1_000)
        .map(|n| {
            let name = n.to_string().into_bytes();
            let mut entry =
                kernel.clone().both(|record_values| record_values.name.clone_from(&name));
            entry.offset = Some(0);
            entry.central_bytes(0)
        })
        .collect();
    let directory = list.concat();
    let end = end(1_000, directory.len(), entries.len(), b"");
    let archive = [entries, directory, end].concat();
    // Whatever the limits are.
    let limits =
        ArchiveLimits { ratio_max: u64::MAX, bytes_max: u64::MAX, ..ArchiveLimits::default() };
    let error = rejected_by(&archive, &limits);
    assert!(matches!(error, ArchiveError::Overlap { .. }), "{error:?}");
    assert_refused!(&archive, ArchiveError::RatioTooHigh { .. });
}

/// The stronger form: the content of each entry is the next entry with its header.
#[test]
fn overlapping_zip_entries_are_rejected() {
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
    let limits = ArchiveLimits::default();
    let rejected = entries(Cursor::new(&archive), &limits, &|| false, &mut |_| panic!("unpacked"));
    assert!(matches!(rejected, Err(ArchiveError::Overlap { .. })));
}

/// Like 42.zip, which unpacks to petabytes in five layers.
#[test]
fn nested_archive_stays_packed() {
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
fn bomb_with_a_false_size_is_rejected() {
    let entry =
        deflated("zeros", &vec![0; 8 << 20]).both(|record_values| record_values.unpacked = 1_000);
    assert_refused!(&zip(&[entry]), ArchiveError::WrongSize { declared: 1_000, .. });
}

#[test]
fn unlisted_folders_are_counted() {
    let entries: Vec<_> =
        (0..20).map(|n| stored(format!("{n}/{}", "d/".repeat(50) + "f"), b"")).collect();
    let limits = ArchiveLimits { entries_max: 500, ..ArchiveLimits::default() };
    let error = rejected_by(&zip(&entries), &limits);
    assert!(matches!(error, ArchiveError::TooManyEntries { limit: 500, .. }), "{error:?}");
    Bench::new(&zip(&entries)).extract(&ArchiveLimits::default()).unwrap();
}
