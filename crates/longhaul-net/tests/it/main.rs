//! Integration tests of the archive reader.
#![expect(clippy::unwrap_used, reason = "shared helpers may fail the test that uses them")]

mod archive;
