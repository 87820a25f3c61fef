//! Zip end records.

use longhaul_net::archive::{ArchiveError, ArchiveLimits};

use super::builders::{Parts, end, parts, stored, zip, zip64_end};
use super::{assert_refused, rejected_by, unpacked};

fn example() -> Parts {
    parts(&[stored("a", b"1"), stored("b", b"22")])
}

/// With a zip64 end record and these values in the plain one.
fn with_zip64(plain: (u16, u32, u32), change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let Parts { entries, directory, count } = example();
    let at = (entries.len() + directory.len()) as u64;
    let (bytes, directory_at) = (directory.len() as u64, entries.len() as u64);
    let mut large = zip64_end(count.into(), bytes, directory_at, at);
    change(&mut large);
    let end = end(plain.0, plain.1 as usize, plain.2 as usize, b"");
    [entries, directory, large, end].concat()
}

#[test]
fn zip_end_may_have_a_comment() {
    let Parts { entries, directory, count } = example();
    let end = end(count, directory.len(), entries.len(), b"made by hand");
    assert_eq!(unpacked(&[entries, directory, end].concat()).len(), 2);
}

#[test]
fn bytes_behind_the_zip_end_are_rejected() {
    let mut archive = zip(&[stored("a", b"1")]);
    archive.push(0);
    assert_refused!(&archive, ArchiveError::Hidden { .. });
}

#[test]
fn second_zip_directory_is_rejected() {
    let archive = [zip(&[stored("a", b"1")]), zip(&[stored("b", b"2")])].concat();
    assert_refused!(&archive, ArchiveError::Contradiction { .. });
}

#[test]
fn zip_end_in_the_comment_is_rejected() {
    let Parts { entries, directory, count } = example();
    let inner = end(count, directory.len(), entries.len(), b"");
    let outer = end(count, directory.len(), entries.len(), &inner);
    let archive = [&*entries, &*directory, &*outer].concat();
    assert_refused!(&archive, ArchiveError::Contradiction { what: "it has two end records", .. });
    let outer =
        end(count, directory.len(), entries.len(), &[&b"PK\x05\x06"[..], &[0; 30]].concat());
    assert_refused!(&[entries, directory, outer].concat(), ArchiveError::Hidden { .. });
}

#[test]
fn nested_zip_end_is_no_second_end() {
    let inner = zip(&[stored("a", b"1")]);
    let tree = unpacked(&zip(&[stored("inner.zip", &inner)]));
    assert_eq!(tree["inner.zip"].as_ref(), Some(&inner));
}

#[test]
fn bytes_in_front_of_a_zip_are_rejected() {
    let Parts { entries, directory, count } = parts(&[{
        let mut entry = stored("a", b"1");
        entry.offset = Some(4);
        entry
    }]);
    let end = end(count, directory.len(), entries.len() + 4, b"");
    let archive = [b"PK\x03\x04".to_vec(), entries, directory, end].concat();
    assert_refused!(&archive, ArchiveError::Hidden { .. });
}

#[test]
fn zip_directory_with_a_wrong_length_is_rejected() {
    let Parts { entries, directory, count } = example();
    for (count, bytes, at) in [
        (count + 1, directory.len(), entries.len()),
        (count - 1, directory.len(), entries.len()),
        (count, directory.len() - 1, entries.len()),
        (count, directory.len() + 1, entries.len() - 1),
        (count, directory.len(), entries.len() + 1),
    ] {
        let end = end(count, bytes, at, b"");
        let archive = [&*entries, &*directory, &*end].concat();
        assert_refused!(
            &archive,
            ArchiveError::Contradiction { .. }
                | ArchiveError::Damaged { .. }
                | ArchiveError::Overlap { .. }
        );
    }
}

#[test]
fn multi_part_zip_is_rejected() {
    let mut archive = zip(&[stored("a", b"1")]);
    let at = archive.len() - 18;
    archive[at] = 1;
    assert_refused!(&archive, ArchiveError::Contradiction { .. });
}

#[test]
fn truncated_zip_is_rejected() {
    let archive = zip(&[stored("a", b"1"), stored("b", b"22")]);
    for length in 4..archive.len() {
        assert_refused!(&archive[..length], ArchiveError::Truncated { .. });
    }
}

#[test]
fn zip_without_entries_is_empty() {
    assert_eq!(unpacked(&zip(&[])).len(), 0);
}

#[test]
fn zip64_end_counts_where_the_plain_one_overflows() {
    let archive = with_zip64((u16::MAX, u32::MAX, u32::MAX), |_| ());
    assert_eq!(unpacked(&archive).len(), 2);
}

#[test]
fn contradictory_zip64_end_is_rejected() {
    assert_refused!(
        &with_zip64((1, u32::MAX, u32::MAX), |_| ()),
        ArchiveError::Contradiction { what: "its two end records differ", .. }
    );
    // Its signature, its length, its disk, its entries on this disk, where it is.
    for at in [0, 4, 16, 24, 64] {
        let archive = with_zip64((u16::MAX, u32::MAX, u32::MAX), |large| large[at] ^= 1);
        assert_refused!(&archive, ArchiveError::Contradiction { .. });
    }
    // Between it and its locator.
    let gap = with_zip64((u16::MAX, u32::MAX, u32::MAX), |large| {
        large.splice(56..56, *b"hidden");
    });
    assert_refused!(&gap, ArchiveError::Contradiction { .. });
    let without_locator = with_zip64((u16::MAX, u32::MAX, u32::MAX), |large| large[56] ^= 1);
    assert_refused!(&without_locator, ArchiveError::Contradiction { .. });
}

#[test]
fn million_entries_are_rejected_before_they_are_read() {
    // There is no directory: to look for it would be another error.
    let large = zip64_end(1_000_000, 46_000_000, 0, 46_000_000);
    let end = end(u16::MAX, u32::MAX as usize, u32::MAX as usize, b"");
    let mut archive = b"PK\x03\x04".to_vec();
    archive.resize(46_000_000, 0);
    archive.extend([large, end].concat());
    let error = rejected_by(&archive, &ArchiveLimits::default());
    assert!(
        matches!(error, ArchiveError::TooManyEntries { limit: 100_000, value: 1_000_000, .. }),
        "{error:?}"
    );
}
