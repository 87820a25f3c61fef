//! Limits and their errors.

use longhaul_net::archive::{ArchiveError, ArchiveLimits};

use super::builders::{deflated, gz, pax, stored, tar, tar_entry, zip, zst};
use super::{Bench, rejected_by};

/// The same files as a zip and as tars.
fn archives(files: &[(&str, &[u8])]) -> Vec<Vec<u8>> {
    let zipped: Vec<_> = files.iter().map(|(path, content)| stored(path, content)).collect();
    let tarred = files.iter().map(|(path, content)| tar_entry(b'0', path, content));
    let tarred = tar(&tarred.collect::<Vec<_>>());
    vec![zip(&zipped), gz(&tarred), zst(&tarred), tarred]
}

/// Checks that an archive passes with the limit at `value` and fails below it.
fn check_limit(
    files: &[(&str, &[u8])],
    value: u64,
    set: fn(&mut ArchiveLimits, u64),
    message: &str,
) {
    for archive in archives(files) {
        let mut limits = ArchiveLimits::default();
        set(&mut limits, value);
        Bench::new(&archive).extract(&limits).unwrap();
        set(&mut limits, value - 1);
        assert_eq!(rejected_by(&archive, &limits).to_string(), message);
    }
}

#[test]
fn total_bytes_are_limited() {
    check_limit(
        &[("a", b"123"), ("b", b"4567")],
        7,
        |limits, value| limits.bytes_max = value,
        r#""b": the archive has 7 bytes up to here; the limit is 6 (bytes_max)"#,
    );
}

#[test]
fn file_bytes_are_limited() {
    check_limit(
        &[("a", b"123"), ("b", b"4567")],
        4,
        |limits, value| limits.file_bytes_max = value,
        r#""b": the file has 4 bytes; the limit is 3 (file_bytes_max)"#,
    );
}

#[test]
fn folder_depth_is_limited() {
    check_limit(
        &[("a/b/c/d", b"")],
        3,
        |limits, value| limits.depth_max = value,
        r#""a/b/c/d": it is nested in 3 folders; the limit is 2 (depth_max)"#,
    );
}

#[test]
fn path_length_is_limited() {
    check_limit(
        &[("folder/file", b"")],
        11,
        |limits, value| limits.path_bytes_max = value,
        r#""folder/file": its path has 11 bytes; the limit is 10 (path_bytes_max)"#,
    );
}

#[test]
fn entry_count_is_limited() {
    let files: &[(&str, &[u8])] = &[("a/b/c", b""), ("a/d", b"")];
    check_limit(
        files,
        4,
        |limits, value| limits.entries_max = value,
        r#""a/d": there are 4 files and folders; the limit is 3 (entries_max)"#,
    );
}

#[test]
fn ratio_of_each_zip_entry_is_limited() {
    let zeros = vec![0; 2 << 20];
    // The archive as a whole is fine: the other file does not pack at all.
    let noise: Vec<u8> = (0..1_u64 << 17)
        .flat_map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ n).to_le_bytes())
        .collect();
    let archive = zip(&[stored("noise", &noise), deflated("zeros", &zeros)]);
    let error = rejected_by(&archive, &ArchiveLimits::default());
    assert!(
        matches!(&error, ArchiveError::RatioTooHigh { limit: 200, entry, .. } if entry.contains("zeros")),
        "{error:?}"
    );
    Bench::new(&archive)
        .extract(&ArchiveLimits { ratio_max: 2_000, ..ArchiveLimits::default() })
        .unwrap();
}

#[test]
fn ratio_of_a_whole_zip_is_limited() {
    // Each is below what is free of it.
    let entries: Vec<_> =
        (0..8).map(|n| deflated(format!("zeros-{n}"), &vec![0; 1 << 20])).collect();
    let error = rejected_by(&zip(&entries), &ArchiveLimits::default());
    assert!(matches!(error, ArchiveError::RatioTooHigh { limit: 200, .. }), "{error:?}");
}

#[test]
fn ratio_of_a_packed_tar_is_limited() {
    let whole = tar(&[tar_entry(b'0', "zeros", &vec![0; 8 << 20])]);
    for archive in [gz(&whole), zst(&whole)] {
        let error = rejected_by(&archive, &ArchiveLimits::default());
        assert!(matches!(error, ArchiveError::RatioTooHigh { limit: 200, .. }), "{error:?}");
        let limits = ArchiveLimits { ratio_max: 100_000, ..ArchiveLimits::default() };
        Bench::new(&archive).extract(&limits).unwrap();
    }
}

#[test]
fn small_file_may_have_a_high_ratio() {
    for archive in archives(&[("spaces", &vec![b' '; 100_000])]) {
        Bench::new(&archive)
            .extract(&ArchiveLimits { ratio_max: 1, ..ArchiveLimits::default() })
            .unwrap();
    }
}

#[test]
fn extended_headers_count_towards_total_bytes() {
    let header = tar_entry(b'x', "pax", &pax("comment", &"x".repeat(1_000)));
    let archive = tar(&[header, tar_entry(b'0', "a", b"")]);
    let error =
        rejected_by(&archive, &ArchiveLimits { bytes_max: 500, ..ArchiveLimits::default() });
    assert!(matches!(error, ArchiveError::TooManyBytes { limit: 500, .. }), "{error:?}");
}

#[test]
fn zstd_window_is_limited() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    std::io::copy(&mut &*tar(&[tar_entry(b'0', "a", b"content")]), &mut encoder).unwrap();
    let archive = encoder.finish().unwrap();
    let error = rejected_by(&archive, &ArchiveLimits::default());
    assert!(matches!(error, ArchiveError::Damaged { .. }), "{error:?}");
}

#[test]
fn entry_names_in_errors_are_escaped_and_truncated() {
    let archive = zip(&[stored("a\u{1b}]0;\u{7}".to_owned() + &"b".repeat(900), b"")]);
    let record_values = rejected_by(&archive, &ArchiveLimits::default()).to_string();
    assert!(record_values.starts_with(r#""a\u{1b}]0;\u{7}bbb"#), "{record_values}");
    assert!(record_values.len() < 200, "{record_values}");
}
