//! Paths that an archive has used. Pure.

use std::collections::HashMap;

use super::error::quoted;
use super::name_folding::fold;
use super::{ArchiveError, ArchiveLimits};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryType {
    File,
    Folder,
}

/// Files and folders so far. Paths that any file system treats as equal are equal here, because the
/// file system of the folder is unknown.
#[derive(Debug, Default)]
pub(super) struct SeenPaths {
    /// By the id of the parent, 0 for the root, and the [folded](fold) name.
    nodes: HashMap<(u64, Box<str>), Node>,
    root_listed: bool,
}

#[derive(Debug)]
struct Node {
    id: u64,
    /// Original name: a folder in two spellings would be two folders on Linux.
    spelling: Box<str>,
    kind: EntryType,
    /// Listed as an entry, not only part of another path.
    listed: bool,
}

impl SeenPaths {
    /// Records a path and its parents. The empty path is the root.
    pub(super) fn insert(
        &mut self,
        path: &str,
        kind: EntryType,
        limits: &ArchiveLimits,
    ) -> Result<(), ArchiveError> {
        let taken = || ArchiveError::PathTaken { entry: quoted(path) };
        if path.is_empty() {
            let again = std::mem::replace(&mut self.root_listed, true);
            return if again || kind == EntryType::File { Err(taken()) } else { Ok(()) };
        }
        let mut parent = 0;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            let last = names.peek().is_none();
            let wanted = if last { kind } else { EntryType::Folder };
            let next_id = self.nodes.len() as u64 + 1;
            let node = self.nodes.entry((parent, fold(name))).or_insert_with(|| Node {
                id: next_id,
                spelling: name.into(),
                kind: wanted,
                listed: false,
            });
            if node.kind != wanted || &*node.spelling != name || (last && node.listed) {
                return Err(taken());
            }
            node.listed |= last;
            parent = node.id;
            let (value, limit) = (self.nodes.len() as u64, limits.entries_max);
            if value > limit {
                return Err(ArchiveError::TooManyEntries { limit, value, entry: quoted(path) });
            }
        }
        Ok(())
    }

    pub(super) fn count(&self, kind: EntryType) -> u64 {
        self.nodes.values().filter(|node| node.kind == kind).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(paths: &[(&str, EntryType)]) -> Result<SeenPaths, ArchiveError> {
        let mut seen_paths = SeenPaths::default();
        for (path, kind) in paths {
            seen_paths.insert(path, *kind, &ArchiveLimits::default())?;
        }
        Ok(seen_paths)
    }

    #[test]
    fn paths_that_are_equal_on_some_file_system_are_rejected() {
        for (one, other) in [
            ("a", "a"),
            ("Readme", "README"),
            ("gr\u{fc}n", "gru\u{308}n"),
            ("straße", "STRASSE"),
            ("ΣΑΣ", "σας"),
            ("\u{212a}", "k"),
            (".git", ".g\u{200c}it"),
            ("a", "a. ."),
            ("A/x", "a/y"),
        ] {
            let rejected = insert(&[(one, EntryType::File), (other, EntryType::File)]);
            assert!(matches!(rejected, Err(ArchiveError::PathTaken { .. })), "{one} {other}");
        }
    }

    #[test]
    fn path_that_is_both_file_and_folder_is_rejected() {
        for (one, other) in [
            (("a", EntryType::File), ("a/b", EntryType::File)),
            (("a/b", EntryType::File), ("a", EntryType::File)),
            (("a", EntryType::Folder), ("a", EntryType::File)),
            (("a", EntryType::Folder), ("a", EntryType::Folder)),
            (("", EntryType::Folder), ("", EntryType::Folder)),
        ] {
            let rejected = insert(&[one, other]);
            assert!(matches!(rejected, Err(ArchiveError::PathTaken { .. })), "{one:?} {other:?}");
        }
    }

    #[test]
    fn folder_may_be_listed_after_its_content() {
        let seen_paths = insert(&[
            ("a/b/c", EntryType::File),
            ("a/b", EntryType::Folder),
            ("", EntryType::Folder),
        ]);
        let seen_paths = seen_paths.unwrap();
        assert_eq!(
            (seen_paths.count(EntryType::File), seen_paths.count(EntryType::Folder)),
            (1, 2)
        );
    }

    #[test]
    fn unlisted_folders_count_as_entries() {
        let limits = ArchiveLimits { entries_max: 3, ..ArchiveLimits::default() };
        let rejected = SeenPaths::default().insert("a/b/c/d", EntryType::File, &limits);
        assert!(matches!(rejected, Err(ArchiveError::TooManyEntries { limit: 3, value: 4, .. })));
    }
}
