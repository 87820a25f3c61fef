//! Results of checks.

use serde::Serialize;

/// Result of one check.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) verdict: CheckVerdict,
    pub(super) detail: String,
    pub(super) advice: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckVerdict {
    Good,
    /// The server can start; the operator should look at it.
    Doubtful,
    /// The server cannot start or work.
    Bad,
}

impl Finding {
    pub(super) fn good(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, verdict: CheckVerdict::Good, detail: detail.into(), advice: None }
    }

    pub(super) fn doubtful(
        check: &'static str,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Self { check, verdict: CheckVerdict::Doubtful, detail: detail.into(), advice }
    }

    pub(super) fn bad(
        check: &'static str,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { verdict: CheckVerdict::Bad, ..Self::doubtful(check, detail, advice) }
    }
}
