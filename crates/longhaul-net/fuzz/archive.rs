//! Fuzz target: any bytes are read within the limits or rejected, without a panic.
#![no_main]

use std::io::{Cursor, copy, sink};

use libfuzzer_sys::fuzz_target;
use longhaul_net::archive::{ArchiveEntry, ArchiveLimits, entries};

/// Small, so that the fuzzer reaches them.
const LIMITS: ArchiveLimits = ArchiveLimits {
    bytes_max: 100_000,
    file_bytes_max: 50_000,
    entries_max: 50,
    ratio_max: 50,
    depth_max: 5,
    path_bytes_max: 300,
};

fuzz_target!(|bytes: &[u8]| {
    let (mut total, mut count) = (0, 0);
    let read = entries(Cursor::new(bytes), &LIMITS, &|| false, &mut |entry| {
        count += 1;
        let path = match entry {
            ArchiveEntry::Folder { path } => path,
            ArchiveEntry::File { path, bytes, content } => {
                let found = copy(content, &mut sink())?;
                assert_eq!(found, bytes);
                total += found;
                path
            }
        };
        assert!(path.len() as u64 <= LIMITS.path_bytes_max);
        assert!(path.split('/').all(|name| !["", ".", ".."].contains(&name)), "{path:?}");
        assert!(!path.contains(['\\', '\0']), "{path:?}");
        Ok(())
    });
    assert!(total <= LIMITS.bytes_max && count <= LIMITS.entries_max);
    if let Ok(extracted) = read {
        assert_eq!(extracted.bytes, total);
    }
});
