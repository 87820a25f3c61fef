//! Formats of a job's own webhook.

use serde::{Deserialize, Serialize};

use super::names::names;
use super::{Event, Job, Status};

/// Phase of a job that prepares, for example loads a model.
pub const PHASE_LOADING: &str = "loading";
/// Phase of a job that does its work.
pub const PHASE_WORKING: &str = "working";

/// Phase of a job between the request to cancel it and its end.
pub(crate) const PHASE_CANCELLING: &str = "cancelling";

/// Format of a webhook's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WebhookFormat {
    /// Standard Webhooks: every transition of the job.
    #[default]
    Standard,
    /// Changes of [`ChatState`] only.
    States,
}

/// Status and phase of a job before a transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousState {
    /// The status.
    pub status: Status,
    /// The phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// Status and phase in one word, as clients of the chat API see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatState {
    /// No work has started: the job is queued, or its worker waits for a target.
    Queued,
    /// A model is being loaded.
    Loading,
    /// The job is being worked on.
    Working,
    /// The job has a result.
    Done,
    /// The job ended without a result.
    Failed,
}

impl WebhookFormat {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
    pub(super) fn is_standard(&self) -> bool {
        match self {
            Self::Standard => true,
            Self::States => false,
        }
    }

    /// Returns true if this transition is delivered.
    pub(crate) fn should_send(self, before: Option<&PreviousState>, event: &Event) -> bool {
        match self {
            Self::Standard => true,
            // Requesting cancellation does not change the state until the job stops.
            Self::States if event.phase.as_deref() == Some(PHASE_CANCELLING) => false,
            Self::States => {
                Some(PreviousState::after(event).state()) != before.map(PreviousState::state)
            }
        }
    }
}

impl PreviousState {
    pub(crate) fn of(job: &Job) -> Self {
        Self { status: job.status, phase: job.phase.clone() }
    }

    pub(crate) fn after(event: &Event) -> Self {
        Self { status: event.status, phase: event.phase.clone() }
    }

    /// Returns the state of this status and phase.
    pub fn state(&self) -> ChatState {
        ChatState::of(self.status, self.phase.as_deref())
    }
}

impl ChatState {
    /// Returns the state of a job. Unknown phases count as work.
    pub fn of(status: Status, phase: Option<&str>) -> Self {
        match status {
            Status::Pending | Status::Waiting => Self::Queued,
            Status::Running => match phase {
                None => Self::Queued,
                Some(PHASE_LOADING) => Self::Loading,
                Some(_) => Self::Working,
            },
            Status::Completed => Self::Done,
            Status::Failed | Status::Cancelled => Self::Failed,
        }
    }
}

names! {
    ChatState {
        Queued: "queued",
        Loading: "loading",
        Working: "working",
        Done: "done",
        Failed: "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_without_a_phase_is_queued_until_something_is_done_for_it() {
        assert_eq!(ChatState::of(Status::Running, None), ChatState::Queued);
        assert_eq!(ChatState::of(Status::Running, Some(PHASE_LOADING)), ChatState::Loading);
        assert_eq!(ChatState::of(Status::Running, Some(PHASE_WORKING)), ChatState::Working);
        assert_eq!(ChatState::of(Status::Cancelled, None), ChatState::Failed);
    }

    #[test]
    fn webhook_that_was_stored_before_there_were_dialects_is_standard() {
        let webhook: super::super::Webhook =
            serde_json::from_str(r#"{"url":"https://example.com","events":[]}"#).unwrap();
        assert_eq!(webhook.format, WebhookFormat::Standard);
        let text = serde_json::to_string(&webhook).unwrap();
        assert_eq!(text, r#"{"url":"https://example.com","events":[]}"#, "older versions read it");
    }
}
