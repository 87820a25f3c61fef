//! Every limit holds, and its error says which, how much and where.

use longhaul_net::archive::{ArchiveError, Limits};

use super::make::{deflated, gz, pax, stored, tar, tar_entry, zip, zst};
use super::{Bench, refused_by};

/// The same files as a zip and as tars.
fn archives(files: &[(&str, &[u8])]) -> Vec<Vec<u8>> {
    let zipped: Vec<_> = files.iter().map(|(path, content)| stored(path, content)).collect();
    let tarred = files.iter().map(|(path, content)| tar_entry(b'0', path, content));
    let tarred = tar(&tarred.collect::<Vec<_>>());
    vec![zip(&zipped), gz(&tarred), zst(&tarred), tarred]
}

/// Passes with the limit at the value and not below it, and says so.
fn holds(files: &[(&str, &[u8])], value: u64, set: fn(&mut Limits, u64), says: &str) {
    for archive in archives(files) {
        let mut limits = Limits::default();
        set(&mut limits, value);
        Bench::new(&archive).extract(&limits).unwrap();
        set(&mut limits, value - 1);
        assert_eq!(refused_by(&archive, &limits).to_string(), says);
    }
}

#[test]
fn bytes_of_all_files_are_bounded() {
    holds(
        &[("a", b"123"), ("b", b"4567")],
        7,
        |limits, value| limits.bytes_max = value,
        r#""b": with it there are 7 bytes, more than 6 (bytes_max)"#,
    );
}

#[test]
fn bytes_of_one_file_are_bounded() {
    holds(
        &[("a", b"123"), ("b", b"4567")],
        4,
        |limits, value| limits.file_bytes_max = value,
        r#""b": it has 4 bytes, more than 3 (file_bytes_max)"#,
    );
}

#[test]
fn depth_is_bounded() {
    holds(
        &[("a/b/c/d", b"")],
        3,
        |limits, value| limits.depth_max = value,
        r#""a/b/c/d": it is in 3 folders, more than 2 (depth_max)"#,
    );
}

#[test]
fn length_of_a_path_is_bounded() {
    holds(
        &[("folder/file", b"")],
        11,
        |limits, value| limits.path_bytes_max = value,
        r#""folder/file": its path has 11 bytes, more than 10 (path_bytes_max)"#,
    );
}

#[test]
fn files_and_folders_are_bounded() {
    let files: &[(&str, &[u8])] = &[("a/b/c", b""), ("a/d", b"")];
    holds(
        files,
        4,
        |limits, value| limits.entries_max = value,
        r#""a/d": there are 4 files and folders, more than 3 (entries_max)"#,
    );
}

#[test]
fn ratio_is_bounded_for_each_entry_of_a_zip() {
    let zeros = vec![0; 2 << 20];
    // The archive as a whole is fine: the other file does not pack at all.
    let noise: Vec<u8> = (0..1_u64 << 17)
        .flat_map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ n).to_le_bytes())
        .collect();
    let archive = zip(&[stored("noise", &noise), deflated("zeros", &zeros)]);
    let error = refused_by(&archive, &Limits::default());
    assert!(
        matches!(&error, ArchiveError::RatioTooHigh { limit: 200, entry, .. } if entry.contains("zeros")),
        "{error:?}"
    );
    Bench::new(&archive).extract(&Limits { ratio_max: 2_000, ..Limits::default() }).unwrap();
}

#[test]
fn ratio_is_bounded_for_all_entries_of_a_zip() {
    // Each is below what is free of it.
    let entries: Vec<_> =
        (0..8).map(|n| deflated(format!("zeros-{n}"), &vec![0; 1 << 20])).collect();
    let error = refused_by(&zip(&entries), &Limits::default());
    assert!(matches!(error, ArchiveError::RatioTooHigh { limit: 200, .. }), "{error:?}");
}

#[test]
fn ratio_is_bounded_for_packed_tars() {
    let whole = tar(&[tar_entry(b'0', "zeros", &vec![0; 8 << 20])]);
    for archive in [gz(&whole), zst(&whole)] {
        let error = refused_by(&archive, &Limits::default());
        assert!(matches!(error, ArchiveError::RatioTooHigh { limit: 200, .. }), "{error:?}");
        let limits = Limits { ratio_max: 100_000, ..Limits::default() };
        Bench::new(&archive).extract(&limits).unwrap();
    }
}

#[test]
fn little_that_packs_well_is_no_bomb() {
    for archive in archives(&[("spaces", &vec![b' '; 100_000])]) {
        Bench::new(&archive).extract(&Limits { ratio_max: 1, ..Limits::default() }).unwrap();
    }
}

#[test]
fn extended_headers_count_as_bytes() {
    let header = tar_entry(b'x', "pax", &pax("comment", &"x".repeat(1_000)));
    let archive = tar(&[header, tar_entry(b'0', "a", b"")]);
    let error = refused_by(&archive, &Limits { bytes_max: 500, ..Limits::default() });
    assert!(matches!(error, ArchiveError::TooManyBytes { limit: 500, .. }), "{error:?}");
}

#[test]
fn window_of_zstd_is_bounded() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    std::io::copy(&mut &*tar(&[tar_entry(b'0', "a", b"content")]), &mut encoder).unwrap();
    let archive = encoder.finish().unwrap();
    let error = refused_by(&archive, &Limits::default());
    assert!(matches!(error, ArchiveError::Damaged { .. }), "{error:?}");
}

#[test]
fn names_in_errors_are_escaped_and_cut() {
    let archive = zip(&[stored("a\u{1b}]0;\u{7}".to_owned() + &"b".repeat(900), b"")]);
    let said = refused_by(&archive, &Limits::default()).to_string();
    assert!(said.starts_with(r#""a\u{1b}]0;\u{7}bbb"#), "{said}");
    assert!(said.len() < 200, "{said}");
}
