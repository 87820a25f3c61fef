//! Random trees in every format.

use longhaul_net::archive::ArchiveFormat;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::FileTree;
use super::formats::round_trip;

/// Lower case and composed, so that no two names are equal on any file system.
fn tree() -> impl Strategy<Value = FileTree> {
    let path = vec("[a-z0-9äöü_-]{1,40}", 1..5).prop_map(|names| names.join("/"));
    let content = vec(any::<u8>(), 0..3_000);
    btree_map(path, content, 0..12).prop_map(|files| {
        let mut tree = FileTree::new();
        for (path, content) in files {
            let ends = path.match_indices('/').map(|(end, _)| end);
            let folders: Vec<_> = ends.map(|end| path[..end].to_owned()).collect();
            let blocked =
                folders.iter().any(|folder| tree.get(folder).is_some_and(Option::is_some));
            if !blocked && !tree.contains_key(&path) {
                tree.extend(folders.into_iter().map(|folder| (folder, None)));
                tree.insert(path, Some(content));
            }
        }
        tree
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_tree_round_trips(files in tree()) {
        for format in [ArchiveFormat::Zip, ArchiveFormat::Tar, ArchiveFormat::TarGz, ArchiveFormat::TarZst] {
            if format == ArchiveFormat::Tar && files.is_empty() {
                // A tar of zeros has no mark to be recognised by.
                continue;
            }
            round_trip(&files, format);
        }
    }
}
