//! Path checks of entries. Pure.

use super::error::quoted;
use super::name_folding::vanishes;
use super::{ArchiveError, ArchiveLimits};

/// Limit of common file systems: a longer name would fail in the middle of an extraction.
const NAME_BYTES_MAX: usize = 255;

/// Path that stays in its folder on every operating system.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EntryPath<'a> {
    /// Without leading `./` and trailing `/`; empty for the root, which a tar may list.
    pub(super) path: &'a str,
    /// Ends with `/`, as folders do.
    pub(super) slash: bool,
}

pub(super) fn check<'a>(
    raw: &'a [u8],
    limits: &ArchiveLimits,
) -> Result<EntryPath<'a>, ArchiveError> {
    let value = raw.len() as u64;
    if value > limits.path_bytes_max {
        let limit = limits.path_bytes_max;
        return Err(ArchiveError::PathTooLong { limit, value, entry: quoted(raw) });
    }
    let bad = |why| ArchiveError::BadPath { entry: quoted(raw), why };
    let text = str::from_utf8(raw).map_err(|_| bad("is not UTF-8"))?;
    if let Some(why) = fault_of_text(text) {
        return Err(bad(why));
    }
    let (path, slash) = match text.strip_suffix('/') {
        Some(folder) => (folder, true),
        None => (text, text == "."),
    };
    // `tar -C folder .` prefixes every path with it.
    let path = if path == "." { "" } else { path.strip_prefix("./").unwrap_or(path) };
    if path.is_empty() && text != "." && text != "./" {
        return Err(bad("is empty"));
    }
    if !path.is_empty() {
        check_names(path, limits, raw)?;
    }
    Ok(EntryPath { path, slash })
}

fn fault_of_text(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty")
    } else if text.chars().any(char::is_control) {
        Some("contains a control character")
    } else if text.contains('\\') {
        Some("contains a backslash")
    } else if text.starts_with('/') {
        Some("is absolute")
    } else if has_drive(text.strip_prefix("./").unwrap_or(text)) {
        Some("starts with a drive letter")
    } else {
        None
    }
}

fn has_drive(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic()) && chars.next() == Some(':')
}

fn check_names(path: &str, limits: &ArchiveLimits, raw: &[u8]) -> Result<(), ArchiveError> {
    let depth = path.split('/').count() as u64 - 1;
    if depth > limits.depth_max {
        let limit = limits.depth_max;
        return Err(ArchiveError::TooDeep { limit, value: depth, entry: quoted(raw) });
    }
    for name in path.split('/') {
        let why = match name {
            "" => "contains an empty name",
            "." => "contains a . segment",
            ".." => "contains a .. segment",
            _ if vanishes(name) => "contains a name of only dots and spaces",
            _ if name.len() > NAME_BYTES_MAX => "contains a name of more than 255 bytes",
            _ => continue,
        };
        return Err(ArchiveError::BadPath { entry: quoted(raw), why });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(raw: &[u8]) -> &'static str {
        match check(raw, &ArchiveLimits::default()) {
            Err(ArchiveError::BadPath { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn paths_that_could_leave_the_folder_are_rejected() {
        for path in ["/etc/passwd", "/", "//server/share"] {
            assert_eq!(why(path.as_bytes()), "is absolute");
        }
        for path in ["..", "../a", "a/..", "a/../../b", "./../a", "a/../"] {
            assert_eq!(why(path.as_bytes()), "contains a .. segment");
        }
        for path in ["C:", "c:/a", "C:a", "./C:/a"] {
            assert_eq!(why(path.as_bytes()), "starts with a drive letter");
        }
        for path in ["..\\a", "\\\\server\\share", "a\\b", "\\\\?\\C:\\a"] {
            assert_eq!(why(path.as_bytes()), "contains a backslash");
        }
        for path in ["a/./b", "a/.", "././a"] {
            assert_eq!(why(path.as_bytes()), "contains a . segment");
        }
        for path in ["...", ".. ", " ", "a/. ./b", ".\u{200c}."] {
            assert!(why(path.as_bytes()).ends_with("only dots and spaces"));
        }
        for path in ["a//b", "a//", ".//a"] {
            assert_eq!(why(path.as_bytes()), "contains an empty name");
        }
    }

    #[test]
    fn paths_that_are_not_clean_text_are_rejected() {
        assert_eq!(why(b""), "is empty");
        assert_eq!(why(b"a\0b"), "contains a control character");
        assert_eq!(why(b"a\nb"), "contains a control character");
        assert_eq!(why("a\u{85}b".as_bytes()), "contains a control character");
        assert_eq!(why(b"a\xffb"), "is not UTF-8");
        assert_eq!(why("ä".repeat(128).as_bytes()), "contains a name of more than 255 bytes");
    }

    #[test]
    fn plain_paths_are_accepted() {
        for (raw, path, slash) in [
            ("a/b.txt", "a/b.txt", false),
            ("./a", "a", false),
            ("a/", "a", true),
            ("./", "", true),
            (".", "", true),
            ("...a/.b", "...a/.b", false),
            ("man/Foo::Bar.3", "man/Foo::Bar.3", false),
            ("grün/日本.txt", "grün/日本.txt", false),
        ] {
            let checked = check(raw.as_bytes(), &ArchiveLimits::default()).unwrap();
            assert_eq!(checked, EntryPath { path, slash });
        }
    }
}
