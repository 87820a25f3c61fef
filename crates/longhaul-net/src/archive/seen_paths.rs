//! Which paths an archive has used. Pure.

use std::collections::HashMap;

use super::error::quoted;
use super::name_folding::fold;
use super::{ArchiveError, Limits};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryType {
    File,
    Folder,
}

/// All files and folders so far. Paths that any file system takes for the same are the same here,
/// since we do not know what the folder is on.
#[derive(Debug, Default)]
pub(super) struct SeenPaths {
    /// By the folder that it is in, 0 for the outermost, and its name as [`fold`] makes it.
    nodes: HashMap<(u64, Box<str>), Node>,
    root_listed: bool,
}

#[derive(Debug)]
struct Node {
    id: u64,
    /// As it was written: one folder in two spellings would be two on Linux.
    spelt: Box<str>,
    kind: EntryType,
    /// An entry of its own, and not only named by what is in it.
    listed: bool,
}

impl SeenPaths {
    /// Takes a path, with the folders that it leads through. The empty one is the outermost folder.
    pub(super) fn insert(
        &mut self,
        path: &str,
        kind: EntryType,
        limits: &Limits,
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
                spelt: name.into(),
                kind: wanted,
                listed: false,
            });
            if node.kind != wanted || &*node.spelt != name || (last && node.listed) {
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
            seen_paths.insert(path, *kind, &Limits::default())?;
        }
        Ok(seen_paths)
    }

    #[test]
    fn paths_that_some_file_system_takes_for_one_are_refused() {
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
            let refused = insert(&[(one, EntryType::File), (other, EntryType::File)]);
            assert!(matches!(refused, Err(ArchiveError::PathTaken { .. })), "{one} {other}");
        }
    }

    #[test]
    fn file_where_a_folder_is_needed_is_refused_and_the_other_way_round() {
        for (one, other) in [
            (("a", EntryType::File), ("a/b", EntryType::File)),
            (("a/b", EntryType::File), ("a", EntryType::File)),
            (("a", EntryType::Folder), ("a", EntryType::File)),
            (("a", EntryType::Folder), ("a", EntryType::Folder)),
            (("", EntryType::Folder), ("", EntryType::Folder)),
        ] {
            let refused = insert(&[one, other]);
            assert!(matches!(refused, Err(ArchiveError::PathTaken { .. })), "{one:?} {other:?}");
        }
    }

    #[test]
    fn folder_may_be_listed_after_what_is_in_it() {
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
    fn folders_that_nobody_lists_count_as_entries() {
        let limits = Limits { entries_max: 3, ..Limits::default() };
        let refused = SeenPaths::default().insert("a/b/c/d", EntryType::File, &limits);
        assert!(matches!(refused, Err(ArchiveError::TooManyEntries { limit: 3, value: 4, .. })));
    }
}
