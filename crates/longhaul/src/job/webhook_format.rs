//! In which words a job's own webhook is told of it.

use serde::{Deserialize, Serialize};

use super::{Event, Job, Status};

/// The phase of a job that gets ready: a model that is being loaded.
pub const PHASE_LOADING: &str = "loading";
/// The phase of a job that does what it was submitted for.
pub const PHASE_WORKING: &str = "working";

/// What a job's phase is from when it was asked to stop until it does.
pub(crate) const PHASE_CANCELLING: &str = "cancelling";

/// What a receiver understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WebhookFormat {
    /// Standard Webhooks, each transition of the job.
    #[default]
    Standard,
    /// Changes of state, in the words of [`JobState`].
    States,
}

/// How a job stood right before a transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousState {
    /// Its status.
    pub status: Status,
    /// Its phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// Where a job stands, in fewer words than its status and phase: as callers of a model see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// Nothing is done for it yet: it is in line, or a worker has it and finds no room where it goes.
    Queued,
    /// What it needs is being loaded.
    Loading,
    /// It is being worked on.
    Working,
    /// It has its result.
    Done,
    /// It ended without one.
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

    /// Whether a receiver is to hear of this transition.
    pub(crate) fn should_send(self, before: Option<&PreviousState>, event: &Event) -> bool {
        match self {
            Self::Standard => true,
            // A job that is asked to stop is where it was, until it stops.
            Self::States if event.phase.as_deref() == Some(PHASE_CANCELLING) => false,
            Self::States => {
                Some(PreviousState::after(event).state()) != before.map(PreviousState::state)
            }
        }
    }
}

impl PreviousState {
    /// As the job stands now.
    pub(crate) fn of(job: &Job) -> Self {
        Self { status: job.status, phase: job.phase.clone() }
    }

    /// As it stood after this.
    pub(crate) fn after(event: &Event) -> Self {
        Self { status: event.status, phase: event.phase.clone() }
    }

    /// The same in one word.
    pub fn state(&self) -> JobState {
        JobState::of(self.status, self.phase.as_deref())
    }
}

impl JobState {
    /// Of a job with this status and phase. A phase that is not known here is work, too.
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

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Loading => "loading",
            Self::Working => "working",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_without_a_phase_is_queued_until_something_is_done_for_it() {
        assert_eq!(JobState::of(Status::Running, None), JobState::Queued);
        assert_eq!(JobState::of(Status::Running, Some(PHASE_LOADING)), JobState::Loading);
        assert_eq!(JobState::of(Status::Running, Some(PHASE_WORKING)), JobState::Working);
        assert_eq!(JobState::of(Status::Cancelled, None), JobState::Failed);
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
