//! Fuzz targets of inputs, ids and instants.

use serde_json::Value;
use serde_json::value::RawValue;

use super::canonical::canonical;
use super::{JobId, Timestamp};
use crate::fuzzing::{Target, text};

pub(crate) const CANONICAL: Target = (
    "canonical-json",
    canonical_json,
    &[
        br#"{"b":[1,2.50,-0.0,1e2,true,null],"a":{"\u0061\n":"\ud83d\ude00","z":""}}"#,
        br#" [ 1E+400 , 0.10e-3 , "\ud800" , {} ] "#,
        br#"{"a":1,"\u0061":2}"#,
        b"123456789012345678901234567890.000",
        b"[[[[[[[[[[]]]]]]]]]]",
    ],
);

/// Checks that the canonical form is stable and the same for all notations of a value.
fn canonical_json(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Ok(raw) = serde_json::from_str::<&RawValue>(text) else { return };
    let Ok(once) = canonical(raw.get()) else { return };
    assert_eq!(canonical(&once).ok().as_ref(), Some(&once), "of {text:?}");
    if let Ok(value) = serde_json::from_str::<Value>(text)
        && is_whole(&value)
    {
        for written in [value.to_string(), format!("{value:#}")] {
            assert_eq!(canonical(&written).ok().as_ref(), Some(&once), "of {text:?}");
        }
    }
}

/// Returns true if serde's value is exact. Fractions are not, because serde keeps only a float.
fn is_whole(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => items.iter().all(is_whole),
        Value::Object(entries) => entries.values().all(is_whole),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

pub(crate) const ID: Target = (
    "job-id",
    id,
    &[b"01KA1B2C3D4E5F6G7H8J9KMNPQ", b"7ZZZZZZZZZZZZZZZZZZZZZZZZZ", b"8ZZZZZZZZZZZZZZZZZZZZZZZZZ"],
);

/// Checks that an id has one notation, in upper or lower case.
fn id(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(id) = text.parse::<JobId>() {
        assert!(id.to_string().eq_ignore_ascii_case(text), "{text:?} is {id}");
        assert_eq!(id.to_string().parse(), Ok(id));
    }
}

pub(crate) const TIMESTAMP: Target = (
    "timestamp",
    timestamp,
    &[
        b"2026-11-15T10:00:00.1234+02:00",
        b"1969-12-31 23:59:59.999Z",
        b"9999-12-31T23:59:59Z",
        b"-009999-01-01T00:00:00Z",
        b"2026-02-29T00:00:00Z",
    ],
);

/// Checks that a formatted instant can be parsed again.
fn timestamp(bytes: &[u8]) {
    let Some(at) = text(bytes).and_then(Timestamp::parse) else { return };
    assert_eq!(Timestamp::parse(&at.to_string()), Some(at), "{at}");
    assert!(at <= Timestamp::MAX);
}
