//! Fingerprints of submissions.

use sha2::{Digest, Sha256};

use super::canonical::canonical;
use super::{Json, JsonError, Name};

/// A digest of kind, input and payload. Two submissions with the same idempotency key are equal if
/// and only if their fingerprints are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Computes a fingerprint. White space, key order and number notation do not matter; duplicate
    /// keys are rejected.
    pub fn of(
        kind: &Name,
        input: &Json,
        payload_sha256: Option<&[u8; 32]>,
    ) -> Result<Self, JsonError> {
        let canonical = canonical(input.as_str())?;
        let mut hash = Sha256::new();
        // Lengths separate the parts unambiguously.
        for part in [kind.as_str().as_bytes(), canonical.as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        if let Some(digest) = payload_sha256 {
            hash.update(digest);
        }
        Ok(Self(hash.finalize().into()))
    }

    /// Converts from stored bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes to store.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn of(input: &str) -> Fingerprint {
        let kind = Name::new("demo").unwrap();
        Fingerprint::of(&kind, &Json::from_text(input).unwrap(), None).unwrap()
    }

    #[test]
    fn white_space_key_order_and_number_spelling_do_not_count() {
        assert_eq!(
            of(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#),
            of(r#" { "b": {"d":null, "c":[1.0, 2e0]}, "a" : 1 } "#)
        );
        assert_eq!(of(r#""é""#), of(r#""\u00e9""#));
    }

    #[test]
    fn everything_else_counts() {
        let different =
            ["{}", "[]", "null", r#"{"a":1}"#, r#"{"a":"1"}"#, r#"{"a":1.5}"#, "[1,2]", "[2,1]"];
        for (i, one) in different.iter().enumerate() {
            for other in different.iter().skip(i + 1) {
                assert_ne!(of(one), of(other), "{one} {other}");
            }
        }
        let input = Json::from_text("{}").unwrap();
        let kinds = ["demo", "dem"]
            .map(|kind| Fingerprint::of(&Name::new(kind).unwrap(), &input, None).unwrap());
        assert_ne!(kinds[0], kinds[1]);
        let payload = Fingerprint::of(&Name::new("demo").unwrap(), &input, Some(&[7; 32])).unwrap();
        assert_ne!(kinds[0], payload);
    }

    #[test]
    fn key_given_twice_is_refused() {
        let input = Json::from_text(r#"{"a":{"b":1,"b":2}}"#).unwrap();
        let error = Fingerprint::of(&Name::new("demo").unwrap(), &input, None).unwrap_err();
        assert!(error.to_string().contains(r#"the key "b" is there twice"#), "{error}");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn pretty_printing_never_changes_it(value in any_json()) {
            prop_assert_eq!(of(&value.to_string()), of(&serde_json::to_string_pretty(&value).unwrap()));
        }

        #[test]
        fn different_values_differ(one in any_json(), other in any_json()) {
            prop_assert_eq!(one == other, of(&one.to_string()) == of(&other.to_string()));
        }
    }
}
