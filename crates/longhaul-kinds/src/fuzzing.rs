//! What holds of whatever reads what programs, models and callers say, whatever that is. The fuzzer looks for bytes for
//! which it does not, and so does a test, for a moment and always at the same ones.

/// A name, what holds of any bytes (it panics if that is not so), and texts to begin with.
pub type Target = (&'static str, fn(&[u8]), &'static [&'static [u8]]);

/// The kinds' own.
pub const TARGETS: &[Target] = &[
    crate::chat::fuzzing::ANSWER,
    crate::command::fuzzing::SAID,
    crate::http::fuzzing::CALL,
    crate::http::fuzzing::PATH,
    #[cfg(feature = "render")]
    crate::render::fuzzing::CLEAN,
];
