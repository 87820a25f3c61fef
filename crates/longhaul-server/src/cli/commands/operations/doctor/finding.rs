//! What the doctor found out.

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) check: &'static str,
    /// How it is.
    pub(super) verdict: Verdict,
    /// What was found.
    pub(super) detail: String,
    /// What to do about it.
    pub(super) advice: Option<String>,
}

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Good,
    /// The server would start; somebody should look at it.
    Doubtful,
    /// The server would not start, or could not do its work.
    Bad,
}

impl Finding {
    pub(super) fn good(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Good, detail: detail.into(), advice: None }
    }

    pub(super) fn doubtful(
        check: &'static str,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Self { check, verdict: Verdict::Doubtful, detail: detail.into(), advice }
    }

    pub(super) fn bad(
        check: &'static str,
        detail: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Bad, ..Self::doubtful(check, detail, advice) }
    }
}
