//! What an entry of a zip says itself: its header, its content, and what is behind that.

use longhaul_net::archive::ArchiveError;

use super::make::{ZipEntry, deflated, extra, stored, zip};
use super::{assert_refused, unpacked};

const TEXT: &[u8] = b"some content that is long enough to be deflated, deflated, deflated";

/// With sizes and checksum behind the content and not in front of it.
fn streamed(behind: impl Fn(&ZipEntry) -> Vec<u8>) -> ZipEntry {
    let mut entry = deflated("a", TEXT).both(|said| said.flags = 1 << 3);
    (entry.local.crc, entry.local.packed, entry.local.unpacked) = (0, 0, 0);
    entry.behind = behind(&entry);
    entry
}

fn numbers(entry: &ZipEntry) -> [u32; 3] {
    [entry.central.crc, entry.central.packed, entry.central.unpacked]
}

#[test]
fn header_that_contradicts_the_directory_is_refused() {
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
fn entry_that_is_not_where_the_directory_says_is_refused() {
    let mut second = stored("b", TEXT);
    second.offset = Some(40);
    assert_refused!(&zip(&[stored("a", TEXT), second]), ArchiveError::Overlap { .. });
    let archive = zip(&[stored("a", TEXT)]);
    let broken = [b"PK\x03\x04", &b"\x14\0\xff"[..], &archive[7..]].concat();
    assert_refused!(&broken, ArchiveError::Contradiction { .. });
}

#[test]
fn sizes_may_be_behind_the_content_in_four_forms() {
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
fn sizes_behind_the_content_must_be_those_in_the_directory() {
    let wrong = |entry: &ZipEntry| numbers(entry).map(|number| (number ^ 1).to_le_bytes()).concat();
    assert_refused!(&zip(&[streamed(wrong)]), ArchiveError::Contradiction { .. });
    assert_refused!(&zip(&[streamed(|_| Vec::new())]), ArchiveError::Hidden { .. });
    assert_refused!(&zip(&[streamed(|_| vec![0; 13])]), ArchiveError::Hidden { .. });
}

#[test]
fn bytes_between_entries_are_refused() {
    let mut entry = stored("a", TEXT);
    entry.behind = b"nobody lists me".to_vec();
    assert_refused!(&zip(&[entry, stored("b", b"")]), ArchiveError::Hidden { .. });
}

#[test]
fn bytes_behind_deflated_content_are_refused() {
    let mut entry = deflated("a", TEXT);
    entry.data.extend(b"hidden");
    let entry = entry.both(|said| said.packed += 6);
    assert_refused!(&zip(&[entry]), ArchiveError::Hidden { .. });
}

#[test]
fn content_of_another_length_is_refused() {
    for delta in [-1, 1, 1_000] {
        let lie = |size: u32| size.checked_add_signed(delta).unwrap();
        let entry = deflated("a", TEXT).both(|said| said.unpacked = lie(said.unpacked));
        assert_refused!(&zip(&[entry]), ArchiveError::WrongSize { .. });
    }
    let entry = stored("a", TEXT).both(|said| said.unpacked += 1);
    assert_refused!(&zip(&[entry]), ArchiveError::Contradiction { .. });
}

#[test]
fn content_of_another_checksum_is_refused() {
    for entry in [stored("a", TEXT), deflated("a", TEXT)] {
        let entry = entry.both(|said| said.crc ^= 1);
        assert_refused!(&zip(&[entry]), ArchiveError::WrongChecksum { .. });
    }
}

#[test]
fn content_that_cannot_be_inflated_is_refused() {
    let mut entry = deflated("a", TEXT);
    entry.data[0] = 0xff;
    assert_refused!(&zip(&[entry]), ArchiveError::Damaged { .. });
}

#[test]
fn large_sizes_in_small_entries_are_read() {
    let sizes = |entry: &ZipEntry| {
        let sizes = [entry.central.unpacked, entry.central.packed];
        extra(1, &sizes.map(|size| u64::from(size).to_le_bytes()).concat())
    };
    let mut entry = deflated("a", TEXT);
    let field = sizes(&entry);
    entry = entry.both(|said| {
        said.extra.clone_from(&field);
        (said.packed, said.unpacked) = (u32::MAX, u32::MAX);
    });
    assert_eq!(unpacked(&zip(&[entry]))["a"].as_deref(), Some(TEXT));
}

#[test]
fn large_sizes_that_lie_are_refused() {
    let field = |numbers: &[u64]| {
        extra(1, &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())
    };
    let full = |numbers: &[u64]| {
        deflated("a", TEXT).both(|said| {
            said.extra = field(numbers);
            (said.packed, said.unpacked) = (u32::MAX, u32::MAX);
        })
    };
    let packed = u64::from(deflated("a", TEXT).central.packed);
    // One too few, one too many, none at all, in the directory and in front of the entry.
    for numbers in [&[67][..], &[67, packed, 0], &[]] {
        for in_directory in [true, false] {
            let mut entry = full(&[67, packed]);
            let said = if in_directory { &mut entry.central } else { &mut entry.local };
            said.extra = field(numbers);
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
    let twice = full(&[]).both(|said| said.extra.clone_from(&twice));
    assert_refused!(&zip(&[twice]), ArchiveError::Contradiction { .. });
}
