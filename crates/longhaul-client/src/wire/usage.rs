//! What finished jobs used.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Instant;

/// By what usage is summed up, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum UsageBy {
    /// By the hour.
    Hour,
    /// By the day.
    Day,
    /// By the month.
    Month,
}

/// A word that usage is not summed up by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("usage is not summed up by {0:?}, but by hour, day or month")]
pub struct UnknownUsageBy(pub String);

impl UsageBy {
    /// The word used on the wire.
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

/// What the caller's finished jobs used, each counted once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// From the beginning of this hour.
    pub from: Instant,
    /// Hours that began before this.
    pub to: Instant,
    /// By what it is summed up.
    pub by: UsageBy,
    /// By start, kind and key; nothing where nothing was used.
    pub rows: Vec<UsageRow>,
    /// All rows together.
    pub total: UsageTotal,
}

/// What jobs of one kind and API key used that ended in one hour, day or month.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageRow {
    /// When the hour, day or month began.
    pub start: Instant,
    /// Which kind.
    pub kind: String,
    /// The id of the API key that submitted the jobs; null if they were submitted without one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub key: Option<String>,
    /// Jobs that ended; one that was resumed and ended again is counted once.
    pub jobs: u64,
    /// How long their attempts ran.
    pub run_seconds: f64,
    /// How large their payloads were.
    pub payload_bytes: u64,
    /// Steps that they finished.
    pub steps: u64,
    /// What language models read for them.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// What language models wrote for them.
    #[serde(default)]
    pub completion_tokens: u64,
}

/// What jobs used together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageTotal {
    /// Jobs that ended.
    pub jobs: u64,
    /// How long their attempts ran.
    pub run_seconds: f64,
    /// How large their payloads were.
    pub payload_bytes: u64,
    /// Steps that they finished.
    pub steps: u64,
    /// What language models read for them.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// What language models wrote for them.
    #[serde(default)]
    pub completion_tokens: u64,
}
