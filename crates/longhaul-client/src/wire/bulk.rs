//! Changes of all jobs that match a filter.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::json::from_object;
use super::{Instant, Status};

/// Filter for jobs. An absent field matches all jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobFilter {
    /// Matches jobs with one of these statuses; also accepts a single status without a list.
    #[serde(default, deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<Status>,
    /// Matches jobs of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub kind: Option<String>,
    /// Matches jobs in this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub queue: Option<String>,
    /// Matches jobs with all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Matches jobs submitted at or after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Instant>,
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Status>, D::Error> {
    deserializer.deserialize_any(OneOrMany)
}

/// Written out, because serde's untagged enums have no useful error message.
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

/// A change of all matching jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkRequest {
    /// Jobs to change. Required, so that an empty body never changes all jobs.
    #[serde(deserialize_with = "from_object")]
    pub filter: JobFilter,
}

responses! {
    /// Result of a bulk change.
    #[derive(Copy)]
    pub struct BulkResult {
        /// Number of changed jobs.
        pub count: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_filter_accepts_a_single_status() {
        let bare: JobFilter = serde_json::from_str(r#"{"status":"failed"}"#).unwrap();
        let listed: JobFilter = serde_json::from_str(r#"{"status":["failed"]}"#).unwrap();
        assert_eq!(bare, listed);
    }

    #[test]
    fn job_filter_errors_list_the_statuses() {
        for (body, reason) in [
            (r#"{"status":"done"}"#, "\"done\" is not a status: use pending, running"),
            (r#"{"status":["failed","done"]}"#, "\"done\" is not a status: use pending"),
            (r#"{"status":3}"#, "expected a status or a list of them (pending, running"),
        ] {
            let error = serde_json::from_str::<JobFilter>(body).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn bulk_request_needs_a_filter() {
        for body in ["{}", r#"{"filter":[]}"#, r#"{"filter":null}"#] {
            assert!(serde_json::from_str::<BulkRequest>(body).is_err(), "{body}");
        }
    }
}
