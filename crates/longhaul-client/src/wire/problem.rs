//! What every answer outside 2xx carries.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a request was refused: RFC 9457 (`application/problem+json`) with a stable code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// A URI that names the kind of problem.
    pub r#type: String,
    /// The kind of problem in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time, and what to do about it.
    pub detail: String,
    /// A stable word for programs, such as `job-not-found`.
    pub code: String,
    /// Names this request in the server's log.
    pub request_id: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.detail.is_empty() { &self.title } else { &self.detail };
        write!(f, "{text} ({} {})", self.status, self.code)
    }
}

impl std::error::Error for Problem {}
