//! Many jobs by a filter.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::json::from_object;
use super::{Instant, Status};

/// Which jobs. What is not given matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobFilter {
    /// Only with one of these statuses; a single one may be given bare.
    #[serde(default, deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<Status>,
    /// Only of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only in this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only with all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Only accepted at or after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Instant>,
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Status>, D::Error> {
    deserializer.deserialize_any(OneOrMany)
}

/// By hand, because serde's untagged enums cannot say what is wrong.
struct OneOrMany;

impl<'de> Visitor<'de> for OneOrMany {
    type Value = Vec<Status>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Status::ALL.map(Status::as_str).join(", ");
        write!(f, "a status or a list of them ({words})")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Vec<Status>, E> {
        word.parse().map(|status| vec![status]).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Status>, A::Error> {
        let mut statuses = Vec::new();
        while let Some(word) = items.next_element::<String>()? {
            statuses.push(word.parse().map_err(de::Error::custom)?);
        }
        Ok(statuses)
    }
}

/// Asks for a change of all jobs that match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkRequest {
    /// Which jobs. Required, so that an empty body never means all of them.
    #[serde(deserialize_with = "from_object")]
    pub filter: JobFilter,
}

/// What a bulk change did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkResult {
    /// How many jobs it changed.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_status_may_stand_bare() {
        let bare: JobFilter = serde_json::from_str(r#"{"status":"failed"}"#).unwrap();
        let listed: JobFilter = serde_json::from_str(r#"{"status":["failed"]}"#).unwrap();
        assert_eq!(bare, listed);
    }

    #[test]
    fn a_word_that_is_no_status_is_told_those_that_are() {
        for (body, reason) in [
            (r#"{"status":"done"}"#, "\"done\" is not a status: one of pending, running"),
            (r#"{"status":["failed","done"]}"#, "\"done\" is not a status: one of pending"),
            (r#"{"status":3}"#, "expected a status or a list of them (pending, running"),
        ] {
            let error = serde_json::from_str::<JobFilter>(body).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_body_without_a_filter_is_refused() {
        for body in ["{}", r#"{"filter":[]}"#, r#"{"filter":null}"#] {
            assert!(serde_json::from_str::<BulkRequest>(body).is_err(), "{body}");
        }
    }
}
