//! Status of a job.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Status of a job. Scheduled, backing off and sleeping jobs are `pending` with a later `runAt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Status {
    /// Queued, or not due yet.
    Pending,
    /// A worker runs the job.
    Running,
    /// Waiting for a signal or for child jobs.
    Waiting,
    /// Finished with a result.
    Completed,
    /// Finished with an error.
    Failed,
    /// Cancelled by a caller.
    Cancelled,
}

/// Error for an unknown status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a status: use pending, running, waiting, completed, failed or cancelled")]
pub struct UnknownStatus(pub String);

impl Status {
    /// All statuses, in the usual order of a job.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Waiting,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns whether the job has finished.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Running | Self::Waiting => false,
        }
    }

    /// Returns the word of the wire format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == word);
        found.ok_or_else(|| UnknownStatus(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_words_parse_back() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        assert_eq!("done".parse::<Status>(), Err(UnknownStatus("done".to_owned())));
    }
}
