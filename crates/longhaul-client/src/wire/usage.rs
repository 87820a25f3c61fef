//! Usage of finished jobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Instant;

/// Period of a usage row, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum UsageBy {
    /// One hour.
    Hour,
    /// One calendar day.
    Day,
    /// One calendar month.
    Month,
}

/// Error for an unknown usage period.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a period: use hour, day or month")]
pub struct UnknownUsageBy(pub String);

impl UsageBy {
    /// Returns the word of the wire format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        }
    }
}

impl fmt::Display for UsageBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for UsageBy {
    type Err = UnknownUsageBy;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = [Self::Hour, Self::Day, Self::Month].into_iter().find(|by| by.as_str() == word);
        found.ok_or_else(|| UnknownUsageBy(word.to_owned()))
    }
}

/// Usage of the caller's finished jobs, each counted once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Start of the first hour.
    pub from: Instant,
    /// End: hours that start before this time are included.
    pub to: Instant,
    /// Period of each row.
    pub by: UsageBy,
    /// Rows by start, kind and key; periods without usage have none.
    pub rows: Vec<UsageRow>,
    /// Sum of all rows.
    pub total: UsageTotal,
}

/// Usage of the jobs of one kind and API key that finished in one period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageRow {
    /// Start of the period.
    pub start: Instant,
    /// Kind of the jobs.
    pub kind: String,
    /// Id of the API key that submitted the jobs; null without a key.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub key: Option<String>,
    /// Finished jobs; a job that was resumed and finished again is counted once.
    pub jobs: u64,
    /// Total duration of their attempts.
    pub run_seconds: f64,
    /// Total size of their payloads.
    pub payload_bytes: u64,
    /// Finished steps.
    pub steps: u64,
    /// Prompt tokens of language models.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Completion tokens of language models.
    #[serde(default)]
    pub completion_tokens: u64,
}

/// Total usage of several jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageTotal {
    /// Finished jobs.
    pub jobs: u64,
    /// Total duration of their attempts.
    pub run_seconds: f64,
    /// Total size of their payloads.
    pub payload_bytes: u64,
    /// Finished steps.
    pub steps: u64,
    /// Prompt tokens of language models.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Completion tokens of language models.
    #[serde(default)]
    pub completion_tokens: u64,
}
