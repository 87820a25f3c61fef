//! Zip entries: local header, content and data descriptor.

use longhaul_net::archive::ArchiveError;

use super::builders::{ZipEntry, deflated, extra, stored, zip};
use super::{assert_refused, unpacked};

const TEXT: &[u8] = b"some content that is long enough to be deflated, deflated, deflated";

/// Sizes and checksum in a data descriptor.
fn streamed(behind: impl Fn(&ZipEntry) -> Vec<u8>) -> ZipEntry {
    let mut entry = deflated("a", TEXT).both(|record_values| record_values.flags = 1 << 3);
    (entry.local.crc, entry.local.packed, entry.local.unpacked) = (0, 0, 0);
    entry.behind = behind(&entry);
    entry
}

fn numbers(entry: &ZipEntry) -> [u32; 3] {
    [entry.central.crc, entry.central.packed, entry.central.unpacked]
}

#[test]
fn local_header_that_contradicts_the_directory_is_rejected() {
    let changes: [fn(&mut ZipEntry); 7] = [
        |entry| entry.local.name = b"b".to_vec(),
        |entry| entry.local.method = 0,
        |entry| entry.local.crc ^= 1,
        |entry| entry.local.packed += 1,
        |entry| entry.local.unpacked -= 1,
        |entry| entry.local.flags = 1,
        |entry| entry.local.flags = 1 << 3,
    ];
    for change in changes {
        let mut entry = deflated("a", TEXT);
        change(&mut entry);
        assert_refused!(&zip(&[entry]), ArchiveError::Contradiction { .. });
    }
}

#[test]
fn zip_entry_at_a_wrong_offset_is_rejected() {
    let mut second = stored("b", TEXT);
    second.offset = Some(40);
    assert_refused!(&zip(&[stored("a", TEXT), second]), ArchiveError::Overlap { .. });
    let archive = zip(&[stored("a", TEXT)]);
    let broken = [b"PK\x03\x04", &b"\x14\0\xff"[..], &archive[7..]].concat();
    assert_refused!(&broken, ArchiveError::Contradiction { .. });
}

#[test]
fn data_descriptor_may_have_four_forms() {
    let small = |entry: &ZipEntry| numbers(entry).map(u32::to_le_bytes).concat();
    let large = |entry: &ZipEntry| {
        let [crc, packed, unpacked] = numbers(entry);
        let sizes = [packed, unpacked].map(|size| u64::from(size).to_le_bytes()).concat();
        [crc.to_le_bytes().to_vec(), sizes].concat()
    };
    let signed = |bytes: Vec<u8>| [b"PK\x07\x08".to_vec(), bytes].concat();
    for entry in [
        streamed(small),
        streamed(large),
        streamed(|entry| signed(small(entry))),
        streamed(|entry| signed(large(entry))),
    ] {
        let tree = unpacked(&zip(&[entry, stored("b", b"2")]));
        assert_eq!(tree["a"].as_deref(), Some(TEXT));
    }
}

#[test]
fn data_descriptor_must_match_the_directory() {
    let wrong = |entry: &ZipEntry| numbers(entry).map(|number| (number ^ 1).to_le_bytes()).concat();
    assert_refused!(&zip(&[streamed(wrong)]), ArchiveError::Contradiction { .. });
    assert_refused!(&zip(&[streamed(|_| Vec::new())]), ArchiveError::Hidden { .. });
    assert_refused!(&zip(&[streamed(|_| vec![0; 13])]), ArchiveError::Hidden { .. });
}

#[test]
fn bytes_between_zip_entries_are_rejected() {
    let mut entry = stored("a", TEXT);
    entry.behind = b"nobody lists me".to_vec();
    assert_refused!(&zip(&[entry, stored("b", b"")]), ArchiveError::Hidden { .. });
}

#[test]
fn bytes_behind_deflated_content_are_rejected() {
    let mut entry = deflated("a", TEXT);
    entry.data.extend(b"hidden");
    let entry = entry.both(|record_values| record_values.packed += 6);
    assert_refused!(&zip(&[entry]), ArchiveError::Hidden { .. });
}

#[test]
fn content_with_a_wrong_length_is_rejected() {
    for delta in [-1, 1, 1_000] {
        let lie = |size: u32| size.checked_add_signed(delta).unwrap();
        let entry = deflated("a", TEXT)
            .both(|record_values| record_values.unpacked = lie(record_values.unpacked));
        assert_refused!(&zip(&[entry]), ArchiveError::WrongSize { .. });
    }
    let entry = stored("a", TEXT).both(|record_values| record_values.unpacked += 1);
    assert_refused!(&zip(&[entry]), ArchiveError::Contradiction { .. });
}

#[test]
fn content_with_a_wrong_checksum_is_rejected() {
    for entry in [stored("a", TEXT), deflated("a", TEXT)] {
        let entry = entry.both(|record_values| record_values.crc ^= 1);
        assert_refused!(&zip(&[entry]), ArchiveError::WrongChecksum { .. });
    }
}

#[test]
fn content_that_cannot_be_inflated_is_rejected() {
    let mut entry = deflated("a", TEXT);
    entry.data[0] = 0xff;
    assert_refused!(&zip(&[entry]), ArchiveError::Damaged { .. });
}

#[test]
fn zip64_sizes_of_small_entries_are_read() {
    let sizes = |entry: &ZipEntry| {
        let sizes = [entry.central.unpacked, entry.central.packed];
        extra(1, &sizes.map(|size| u64::from(size).to_le_bytes()).concat())
    };
    let mut entry = deflated("a", TEXT);
    let field = sizes(&entry);
    entry = entry.both(|record_values| {
        record_values.extra.clone_from(&field);
        (record_values.packed, record_values.unpacked) = (u32::MAX, u32::MAX);
    });
    assert_eq!(unpacked(&zip(&[entry]))["a"].as_deref(), Some(TEXT));
}

#[test]
fn contradictory_zip64_sizes_are_rejected() {
    let field = |numbers: &[u64]| {
        extra(1, &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())
    };
    let full = |numbers: &[u64]| {
        deflated("a", TEXT).both(|record_values| {
            record_values.extra = field(numbers);
            (record_values.packed, record_values.unpacked) = (u32::MAX, u32::MAX);
        })
    };
    let packed = u64::from(deflated("a", TEXT).central.packed);
    // One too few, one too many, none at all, in the directory and in front of the entry.
    for numbers in [&[67][..], &[67, packed, 0], &[]] {
        for in_directory in [true, false] {
            let mut entry = full(&[67, packed]);
            let record_values = if in_directory { &mut entry.central } else { &mut entry.local };
            record_values.extra = field(numbers);
            assert_refused!(&zip(&[entry]), ArchiveError::Contradiction { .. });
        }
    }
    // Other sizes than the plain ones, which have room.
    let mut unasked = deflated("a", TEXT);
    unasked.central.extra = field(&[67, packed]);
    assert_refused!(&zip(&[unasked]), ArchiveError::Contradiction { .. });
    let mut differing = deflated("a", TEXT);
    differing.local.extra = field(&[67, packed]);
    differing.local.unpacked = 66;
    assert_refused!(&zip(&[differing]), ArchiveError::Contradiction { .. });
    assert_refused!(&zip(&[full(&[67, u64::MAX])]), ArchiveError::Overlap { .. });
    assert_refused!(&zip(&[full(&[u64::MAX, packed])]), ArchiveError::FileTooLong { .. });
    let twice = [field(&[67, packed]), field(&[67, packed])].concat();
    let twice = full(&[]).both(|record_values| record_values.extra.clone_from(&twice));
    assert_refused!(&zip(&[twice]), ArchiveError::Contradiction { .. });
}
