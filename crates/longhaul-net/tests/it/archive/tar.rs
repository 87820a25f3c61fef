//! Tar entries and extended headers.

use longhaul_net::archive::ArchiveError;

use super::builders::{gz, pax, tar, tar_entry, tar_entry_sized, zst};
use super::{assert_refused, unpacked};

fn file(name: &str) -> Vec<u8> {
    tar_entry(b'0', name, b"content")
}

fn content(archive: &[u8], path: &str) -> Option<Vec<u8>> {
    unpacked(archive).remove(path).unwrap()
}

#[test]
fn paths_outside_of_the_folder_are_rejected() {
    for path in ["/etc/passwd", "../a", "a/../../b", "C:/a", "\\\\host\\a", "a\nb", "a\u{85}"] {
        assert_refused!(&tar(&[file("fine"), file(path)]), ArchiveError::BadPath { .. });
        let long = tar_entry(b'L', "././@LongLink", path.as_bytes());
        assert_refused!(&tar(&[long, file("fine")]), ArchiveError::BadPath { .. });
        let pax = tar_entry(b'x', "pax", &pax("path", path));
        assert_refused!(&tar(&[pax, file("fine")]), ArchiveError::BadPath { .. });
    }
    assert_refused!(&tar(&[file("")]), ArchiveError::BadPath { .. });
    let nul = tar_entry(b'L', "long", b"a\0b\0");
    assert_refused!(&tar(&[nul, file("fine")]), ArchiveError::BadPath { .. });
}

#[test]
fn duplicate_path_is_rejected() {
    for (one, other) in [("a", "a"), ("Read", "READ"), ("a", "a/b"), ("a/b", "a"), ("./a", "a")] {
        assert_refused!(&tar(&[file(one), file(other)]), ArchiveError::PathTaken { .. });
    }
}

#[test]
fn tar_entries_other_than_files_and_folders_are_rejected() {
    for flag in [b'1', b'2', b'3', b'4', b'6', b'S'] {
        assert_refused!(&tar(&[tar_entry(flag, "a", b"")]), ArchiveError::NotAFile { .. });
    }
    assert_refused!(&tar(&[tar_entry(b'K', "a", b"target\0")]), ArchiveError::NotAFile { .. });
    for flag in [b'7', b'V', b'M', b'D', b'?'] {
        assert_refused!(&tar(&[tar_entry(flag, "a", b"")]), ArchiveError::Unsupported { .. });
    }
    for key in ["linkpath", "GNU.sparse.major", "GNU.sparse.name"] {
        let header = tar_entry(b'x', "pax", &pax(key, "1"));
        assert_refused!(&tar(&[header, file("a")]), ArchiveError::NotAFile { .. });
    }
}

#[test]
fn tar_folder_may_have_a_flag_or_a_slash() {
    let tree = unpacked(&tar(&[
        tar_entry(b'5', "./", b""),
        tar_entry(b'5', "./a/", b""),
        tar_entry(b'5', "b", b""),
        tar_entry(0, "c/", b""),
        file("./a/d"),
    ]));
    assert_eq!(tree.keys().collect::<Vec<_>>(), ["a", "a/d", "b", "c"]);
}

#[test]
fn entry_that_is_both_file_and_folder_is_rejected() {
    for entry in [tar_entry(b'0', "a/", b""), tar_entry(b'5', "a", b"content")] {
        assert_refused!(&tar(&[entry]), ArchiveError::Contradiction { .. });
    }
}

#[test]
fn tar_long_names_are_read() {
    let long = format!("{}/{}", "folder".repeat(20), "file".repeat(20));
    let gnu = tar_entry(b'L', "././@LongLink", format!("{long}\0").as_bytes());
    assert_eq!(content(&tar(&[gnu, file("cut")]), &long).unwrap(), b"content");
    let records = [pax("mtime", "1.5"), pax("path", &long), pax("SCHILY.xattr.a", "\n\n")];
    let header = tar_entry(b'x', "pax", &records.concat());
    assert_eq!(content(&tar(&[header, file("cut")]), &long).unwrap(), b"content");
}

#[test]
fn tar_long_names_are_limited() {
    let name = "a/".repeat(30) + &"b".repeat(2_000);
    let gnu = tar_entry(b'L', "././@LongLink", name.as_bytes());
    assert_refused!(&tar(&[gnu, file("cut")]), ArchiveError::PathTooLong { .. });
    for flag in [b'L', b'x', b'g'] {
        let huge = tar_entry_sized(flag, "huge", b"", 1 << 33);
        assert_refused!(&tar(&[huge, file("cut")]), ArchiveError::Unsupported { .. });
    }
}

#[test]
fn tar_global_headers_are_skipped_and_limited() {
    let commit = tar_entry(b'g', "pax_global_header", &pax("comment", "0123abcd"));
    let archive = tar(&[commit.clone(), file("a")]);
    assert_eq!(content(&archive, "a").unwrap(), b"content");
    let many = vec![commit; 17];
    assert_refused!(&tar(&many), ArchiveError::Unsupported { .. });
    for (key, value) in [("path", "b"), ("size", "7")] {
        let header = tar_entry(b'g', "global", &pax(key, value));
        assert_refused!(&tar(&[header, file("a")]), ArchiveError::Unsupported { .. });
    }
}

#[test]
fn pax_size_is_rejected_unless_the_plain_one_overflows() {
    let sized = |value: &str| tar(&[tar_entry(b'x', "pax", &pax("size", value)), file("a")]);
    assert_eq!(content(&sized("7"), "a").unwrap(), b"content");
    assert_refused!(&sized("512"), ArchiveError::Contradiction { what: "it has two sizes", .. });
    assert_refused!(&sized("0"), ArchiveError::Contradiction { .. });
    assert_refused!(&sized("8589934592"), ArchiveError::FileTooLong { value: 8_589_934_592, .. });
    for value in ["+7", "-7", "7.0", "", "99999999999999999999"] {
        assert_refused!(&sized(value), ArchiveError::Damaged { .. });
    }
}

#[test]
fn second_extended_header_is_rejected() {
    let gnu = tar_entry(b'L', "././@LongLink", b"a");
    let pax_path = tar_entry(b'x', "pax", &pax("path", "b"));
    let twice = tar_entry(b'x', "pax", &[pax("path", "a"), pax("path", "b")].concat());
    for headers in [[&gnu, &pax_path], [&pax_path, &gnu], [&gnu, &gnu], [&pax_path, &pax_path]] {
        let archive = tar(&[headers[0].clone(), headers[1].clone(), file("c")]);
        assert_refused!(&archive, ArchiveError::Contradiction { .. });
    }
    assert_refused!(&tar(&[twice, file("c")]), ArchiveError::Contradiction { .. });
    assert_refused!(&tar(&[gnu]), ArchiveError::Truncated { .. });
}

#[test]
fn invalid_pax_records_are_rejected() {
    for records in ["x", "5 a=b", "99 path=a\n", "0 path=a\n", "+9 path=a\n", "7 path\n", "3 \n"] {
        let header = tar_entry(b'x', "pax", records.as_bytes());
        assert_refused!(&tar(&[header, file("a")]), ArchiveError::Damaged { .. });
    }
}

#[test]
fn tar_header_with_a_wrong_checksum_or_magic_is_rejected() {
    let mut damaged = file("a");
    damaged[0] ^= 1;
    assert_refused!(&tar(&[damaged]), ArchiveError::WrongChecksum { .. });
    let mut old = ::tar::Header::new_old();
    old.as_old_mut().name[0] = b'b';
    old.set_size(0);
    old.set_cksum();
    assert_refused!(&tar(&[file("a"), old.as_bytes().to_vec()]), ArchiveError::Damaged { .. });
    assert_refused!(&gz(&tar(&[old.as_bytes().to_vec()])), ArchiveError::UnknownFormat);
}

#[test]
fn second_tar_behind_the_end_is_rejected() {
    let two = [tar(&[file("a")]), tar(&[file("b")])].concat();
    for archive in [two.clone(), gz(&two), zst(&two)] {
        assert_refused!(&archive, ArchiveError::Hidden { .. });
    }
    let two = |pack: fn(&[u8]) -> Vec<u8>| [pack(&tar(&[file("a")])), pack(&file("b"))].concat();
    assert_refused!(&two(gz), ArchiveError::Hidden { .. });
    assert_refused!(&two(zst), ArchiveError::Hidden { .. });
}

#[test]
fn bytes_behind_the_packed_stream_are_rejected() {
    for pack in [gz, zst] {
        let archive = [pack(&tar(&[file("a")])), b"and more".to_vec()].concat();
        assert_refused!(&archive, ArchiveError::Damaged { .. } | ArchiveError::Truncated { .. });
    }
}

#[test]
fn tar_in_several_packed_members_is_read() {
    for pack in [gz, zst] {
        let whole = tar(&[file("a"), file("b")]);
        let (head, rest) = whole.split_at(700);
        let tree = unpacked(&[pack(head), pack(rest)].concat());
        assert_eq!(tree.len(), 2);
    }
}

#[test]
fn zeros_behind_a_tar_are_limited() {
    let mut archive = tar(&[file("a")]);
    archive.resize(10_240, 0);
    assert_eq!(unpacked(&archive).len(), 1);
    archive.resize(2 << 20, 0);
    assert_refused!(&archive, ArchiveError::Hidden { .. });
}

#[test]
fn truncated_tar_is_rejected() {
    let archive = tar(&[file("a"), file("b")]);
    for length in [500, 512, 600, 1_024, 1_500, 2_048, 2_100] {
        let cut = &archive[..length];
        assert_refused!(cut, ArchiveError::Truncated { .. });
        assert_refused!(&gz(cut), ArchiveError::Truncated { .. });
    }
    for packed in [gz(&archive), zst(&archive)] {
        for length in [packed.len() / 2, packed.len() - 1] {
            assert_refused!(&packed[..length], ArchiveError::Truncated { .. });
        }
    }
}

#[test]
fn packed_tar_with_a_wrong_checksum_is_rejected() {
    for mut packed in [gz(&tar(&[file("a")])), zst(&tar(&[file("a")]))] {
        // gzip ends with checksum and length, zstd with its checksum.
        let at = packed.len() - if packed[0] == 0x1f { 8 } else { 4 };
        packed[at] ^= 1;
        assert_refused!(&packed, ArchiveError::Damaged { .. });
    }
}
