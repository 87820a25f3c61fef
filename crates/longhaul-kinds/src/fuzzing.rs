//! Fuzz targets: properties of the parsers that read programs' and models' output and callers' input.
//! The fuzzer searches for bytes that violate them; a test runs each on a fixed set of inputs.

/// Name of a target, a property that panics when it does not hold for some bytes, and seed inputs.
pub type FuzzTarget = (&'static str, fn(&[u8]), &'static [&'static [u8]]);

pub const TARGETS: &[FuzzTarget] = &[
    crate::chat::fuzzing::STREAM,
    crate::command::fuzzing::STDERR_PROTOCOL,
    crate::http::fuzzing::CALL,
    crate::http::fuzzing::PATH,
];
