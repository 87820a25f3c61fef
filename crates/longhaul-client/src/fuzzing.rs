//! Properties of parsers of untrusted input, checked by the fuzzer and, on a fixed sample, by a test.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire::{BatchJob, JobFilter, SubmitRequest};
use crate::{DurationText, http};

/// Name, property (panics if it is violated) and seed inputs.
pub type Target = (&'static str, fn(&[u8]), &'static [&'static [u8]]);

/// Fuzz targets of this crate.
pub const TARGETS: &[Target] = &[DURATION, WIRE, http::fuzzing::SSE, http::fuzzing::RETRY_AFTER];

/// Returns the bytes as UTF-8 text.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

const DURATION: Target = (
    "duration",
    duration,
    &[
        b"1d2h3m4s5ms",
        b"1h30m",
        b"0s",
        b"00015s",
        b"18446744073709551615ms",
        b"213503982334d",
        b"1m1h",
    ],
);

/// A formatted duration parses back, and its text is stable.
fn duration(bytes: &[u8]) {
    let Some(Ok(duration)) = text(bytes).map(str::parse::<DurationText>) else { return };
    let written = duration.to_string();
    assert_eq!(written.parse(), Ok(duration), "{written}");
}

const WIRE: Target = (
    "wire",
    wire,
    &[
        br#"{"kind":"demo","input":{"a":[1,2.5e3]},"queue":"q","priority":-3,"labels":{"a":"b"}}"#,
        br#"{"kind":"demo","input":null,"runAt":"2026-11-15T10:00:00+02:00","timeout":"1h30m"}"#,
        br#"{"kind":"d","input":0,"delay":"5ms","maxAttempts":4,"retention":{"completed":"1d"}}"#,
        br#"{"kind":"demo","input":"x","idempotencyKey":"k","labels":null,"retention":null}"#,
        br#"{"status":["failed","cancelled"],"kind":"demo","labels":{"a":""}}"#,
        br#"{"status":"failed","createdAfter":"2026-11-15T10:00:00Z"}"#,
    ],
);

/// A parsed body serializes to an equal one.
fn wire(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    round_trip::<SubmitRequest>(text);
    round_trip::<BatchJob>(text);
    round_trip::<JobFilter>(text);
}

fn round_trip<T: DeserializeOwned + Serialize>(text: &str) {
    let Ok(read) = serde_json::from_str::<T>(text) else { return };
    let written = serde_json::to_string(&read).unwrap_or_default();
    let again = serde_json::from_str::<T>(&written).and_then(|read| serde_json::to_string(&read));
    assert_eq!(again.ok().as_ref(), Some(&written), "of {text:?}");
}
