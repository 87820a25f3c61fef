//! Fuzz targets: properties of parsers of untrusted text. The fuzzer searches for counterexamples,
//! and a test runs each target for a moment with a fixed seed.

/// A name, a property of arbitrary bytes (it panics if violated), and a seed corpus.
pub type Target = (&'static str, fn(&[u8]), &'static [&'static [u8]]);

/// The engine's targets.
pub const TARGETS: &[Target] = &[
    #[cfg(feature = "blobs")]
    crate::blob::fuzzing::ADDRESS,
    crate::job::fuzzing::CANONICAL,
    crate::job::fuzzing::ID,
    crate::job::fuzzing::TIMESTAMP,
    #[cfg(feature = "postgres")]
    crate::store::postgres::fuzzing::URL,
];

/// Replaces stars in a text, as a password: no message may contain it.
pub(crate) const SECRET: &str = "hunter2";

pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
