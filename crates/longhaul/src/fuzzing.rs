//! What holds of whatever reads text from outside, whatever that text is. The fuzzer looks for a text for
//! which it does not, and so does a test, for a moment and always at the same ones.

/// A name, what holds of any bytes (it panics if that is not so), and texts to begin with.
pub type Target = (&'static str, fn(&[u8]), &'static [&'static [u8]]);

/// The engine's own.
pub const TARGETS: &[Target] = &[
    crate::blob::fuzzing::ADDRESS,
    crate::job::fuzzing::CANONICAL,
    crate::job::fuzzing::ID,
    crate::job::fuzzing::TIMESTAMP,
    #[cfg(feature = "postgres")]
    crate::store::postgres::fuzzing::URL,
];

/// Stands for a password wherever a text has a star: it may not come back in any message.
pub(crate) const SECRET: &str = "hunter2";

/// The bytes as text, if they are.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
