//! Zip directories: paths, entry types, methods and offsets.

use longhaul_net::archive::ArchiveError;

use super::builders::{SYMLINK, deflated, extra, stored, zip};
use super::{assert_refused, unpacked};

#[test]
fn paths_outside_of_the_folder_are_rejected() {
    for path in ["/etc/passwd", "../a", "a/../../b", "C:/a", "\\\\host\\a", "a\\..\\b"] {
        assert_refused!(
            &zip(&[stored("fine", b"1"), stored(path, b"2")]),
            ArchiveError::BadPath { .. }
        );
    }
}

#[test]
fn non_text_names_are_rejected() {
    for name in [&b""[..], b"a\0b", b"a\x1b[0m", b"a\x82"] {
        assert_refused!(&zip(&[stored(name, b"1")]), ArchiveError::BadPath { .. });
    }
}

#[test]
fn duplicate_path_is_rejected() {
    for (one, other) in [("a", "a"), ("Read", "READ"), ("\u{e9}", "e\u{301}"), ("./a", "a")] {
        assert_refused!(
            &zip(&[stored(one, b"1"), stored(other, b"2")]),
            ArchiveError::PathTaken { .. }
        );
    }
}

#[test]
fn file_that_is_also_a_folder_is_rejected() {
    for (one, other) in [("a", "a/b"), ("a/b", "a"), ("A", "a/b")] {
        assert_refused!(
            &zip(&[stored(one, b""), stored(other, b"")]),
            ArchiveError::PathTaken { .. }
        );
    }
}

#[test]
fn zip_links_and_devices_are_rejected() {
    assert_refused!(
        &zip(&[stored("a", b"/etc/passwd").attributes(SYMLINK)]),
        ArchiveError::NotAFile { what: "a symbolic link", .. }
    );
    for kind in [0o010_000_u32, 0o020_000, 0o060_000, 0o140_000] {
        assert_refused!(
            &zip(&[stored("a", b"").attributes(kind << 16)]),
            ArchiveError::NotAFile { .. }
        );
    }
}

#[test]
fn entry_that_is_both_file_and_folder_is_rejected() {
    let folder = stored("a", b"").attributes(0o040_755 << 16);
    let dos_folder = stored("a", b"").attributes(0x10);
    let file = stored("a/", b"").attributes(0o100_644 << 16);
    let full_folder = stored("a/", b"content");
    for entry in [folder, dos_folder, file, full_folder] {
        assert_refused!(&zip(&[entry]), ArchiveError::Contradiction { .. });
    }
}

#[test]
fn encrypted_zip_entry_is_rejected() {
    for flags in [1, 1 << 6, 1 << 13] {
        let entry = stored("a", b"secret").both(|record_values| record_values.flags = flags);
        assert_refused!(&zip(&[entry]), ArchiveError::Encrypted { .. });
    }
    let aes = stored("a", b"secret").both(|record_values| record_values.method = 99);
    assert_refused!(&zip(&[aes]), ArchiveError::Encrypted { .. });
}

#[test]
fn unknown_compression_method_is_rejected() {
    for method in [1, 9, 12, 14, 93, 98] {
        let entry = stored("a", b"content").both(|record_values| record_values.method = method);
        assert_refused!(&zip(&[entry]), ArchiveError::Unsupported { .. });
    }
    let patch = stored("a", b"content").both(|record_values| record_values.flags = 1 << 5);
    assert_refused!(&zip(&[patch]), ArchiveError::Unsupported { .. });
}

#[test]
fn names_in_extra_fields_must_match() {
    let name = |name: &[u8]| extra(0x7075, &[b"\x01\0\0\0\0", name].concat());
    let entry =
        |other: &[u8]| stored("a", b"1").both(|record_values| record_values.extra = name(other));
    assert_eq!(unpacked(&zip(&[entry(b"a")])).len(), 1);
    assert_refused!(
        &zip(&[entry(b"b")]),
        ArchiveError::Contradiction { what: "it has two names", .. }
    );
}

#[test]
fn invalid_extra_fields_are_rejected() {
    for extra in [&b"\x01"[..], b"\x01\x99\x09\0ab"] {
        let entry = stored("a", b"1").both(|record_values| record_values.extra = extra.to_vec());
        assert_refused!(&zip(&[entry]), ArchiveError::Damaged { .. });
    }
}

#[test]
fn deflated_zip_folder_is_a_folder() {
    let tree = unpacked(&zip(&[deflated("a/", b""), stored("a/b", b"1")]));
    assert_eq!(tree["a"], None);
    assert_eq!(tree["a/b"].as_deref(), Some(&b"1"[..]));
}
