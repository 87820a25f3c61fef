//! Fuzz properties of JSON bodies, compared with serde's parser.

use std::collections::HashSet;
use std::fmt;

use longhaul::job::Json;
use longhaul_client::wire::{BatchJob, SubmitRequest};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::duplicate_keys::find;
use super::nesting::exceeds;
use super::{object, reject_deep};
use crate::fuzzing::{Target, text};

/// Depth and duplicates as found by a real parser.
struct JsonStructure {
    depth: usize,
    doubled: bool,
}

impl<'de> Deserialize<'de> for JsonStructure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadAny)
    }
}

struct ReadAny;

const LEAF: JsonStructure = JsonStructure { depth: 0, doubled: false };

impl<'de> Visitor<'de> for ReadAny {
    type Value = JsonStructure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<JsonStructure, E> {
        Ok(LEAF)
    }

    fn visit_i64<E>(self, _: i64) -> Result<JsonStructure, E> {
        Ok(LEAF)
    }

    fn visit_u64<E>(self, _: u64) -> Result<JsonStructure, E> {
        Ok(LEAF)
    }

    fn visit_f64<E>(self, _: f64) -> Result<JsonStructure, E> {
        Ok(LEAF)
    }

    fn visit_str<E>(self, _: &str) -> Result<JsonStructure, E> {
        Ok(LEAF)
    }

    fn visit_unit<E>(self) -> Result<JsonStructure, E> {
        Ok(LEAF)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonStructure, A::Error> {
        let mut seen = LEAF;
        while let Some(item) = items.next_element::<JsonStructure>()? {
            seen.add(&item);
        }
        Ok(seen.inside())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<JsonStructure, A::Error> {
        let (mut seen, mut keys) = (LEAF, HashSet::new());
        while let Some((key, value)) = entries.next_entry::<String, JsonStructure>()? {
            seen.add(&value);
            seen.doubled |= !keys.insert(key);
        }
        Ok(seen.inside())
    }
}

impl JsonStructure {
    fn add(&mut self, inner: &Self) {
        self.depth = self.depth.max(inner.depth);
        self.doubled |= inner.doubled;
    }

    fn inside(mut self) -> Self {
        self.depth += 1;
        self
    }
}

pub(crate) const DEPTH: Target = (
    "json-depth",
    depth,
    &[
        br#"{"a\"[[":"\\","b":"]","c":[[],{"d":{}}]}"#,
        b"[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]",
        br#"["\\\"[",1.5e3,true,null]"#,
        b"]]][",
        b"\"[[",
    ],
);

/// The scan counts as a reader does.
fn depth(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Ok(seen) = serde_json::from_str::<JsonStructure>(text) else {
        // What is not JSON, or nests deeper than serde goes, is only scanned.
        exceeds(text, 64);
        return;
    };
    assert!(!exceeds(text, seen.depth), "{text:?} nests {}", seen.depth);
    assert!(seen.depth == 0 || exceeds(text, seen.depth - 1), "{text:?} nests {}", seen.depth);
}

pub(crate) const UNIQUE: Target = (
    "json-unique",
    unique,
    &[
        br#"{"a":1,"b":{"a":[{"c":1},{"c":2}]},"\u0061":"a"}"#,
        br#"{"\"":1, "k" : {"k":1} , "\"":2}"#,
        br#"[{"":"{\"a\":1,\"a\":2}"},["a","a"],{"x":"a","a":"x"}]"#,
        br#"{"\ud800":1,"\uD800":2}"#,
        br#"{"a":1,"a"#,
    ],
);

/// The scan finds a key that stands twice exactly where a reader does.
fn unique(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let found = find(text);
    if let Ok(seen) = serde_json::from_str::<JsonStructure>(text) {
        assert_eq!(found.is_some(), seen.doubled, "{text:?}: {found:?}");
    }
}

pub(crate) const OBJECT: Target = (
    "submit-body",
    body,
    &[
        br#"{"kind":"demo","input":{"a":[1,2.5e3]},"queue":"q","priority":-3,"labels":{"a":"b"}}"#,
        br#"{"kind":"demo","input":null,"idempotencyKey":"k","delay":"5ms","retention":{"completed":"1d"}}"#,
        br#"{"kind":"demo","input":{},"maxAttemps":3}"#,
        br#" {"kind":"demo","kind":"demo","input":{}}"#,
        b"[\"demo\",{}]",
    ],
);

/// A body that is taken is an object whose keys stand once, and its input is carried as it came.
fn body(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if reject_deep(text).is_err() {
        return;
    }
    let of_batch = object::<BatchJob>(text);
    match object::<SubmitRequest>(text) {
        Ok(request) => {
            assert!(text.contains(request.input.as_str()), "{text:?}");
            assert!(Json::from_text(request.input.as_str()).is_ok(), "{text:?}");
            assert!(of_batch.is_ok(), "{text:?} is good alone only");
            assert!(serde_json::from_str::<IgnoredAny>(text).is_ok(), "{text:?}");
        }
        Err(problem) => assert!([400, 422].contains(&problem.status().as_u16()), "{problem:?}"),
    }
}
