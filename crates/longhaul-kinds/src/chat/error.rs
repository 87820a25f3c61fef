//! Errors of chat jobs and their consequences.

use std::time::Duration;

use longhaul::{JobError, Retry};
use serde::de::IgnoredAny;
use serde_json::Value;

/// Characters of a target's message.
const MESSAGE_CHARS_MAX: usize = 1_024;
/// Longest `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// The call was not sent. The job waits for the target and is not charged.
    #[error("the target {target} is unreachable: {why}")]
    Unreachable { target: String, why: String },
    /// Status 502, 503 or 504 of the target, or of a gateway before it. Charged, because the call may be the cause.
    #[error("the target {target} is unavailable: {message}")]
    Unavailable { target: String, message: String },
    /// The connection was closed before the final chunk.
    #[error("the target {target} closed its stream early: {why}")]
    BrokeOff { target: String, why: String },
    #[error("the target {target} sent nothing for {for_s} s")]
    Silent { target: String, for_s: u64 },
    #[error("the target {target} is busy: {message}")]
    Busy { target: String, message: String, retry_after: Option<Duration> },
    #[error("the target {target} failed: {message}")]
    Failed { target: String, message: String },
    /// A retry would cost as much and end the same way.
    #[error("the response of the target {target} is too long: the limit is {bytes_max} bytes")]
    TooLong { target: String, bytes_max: usize },
    /// The call is invalid, so that a retry would not help. `status` is an HTTP status.
    #[error("{message}")]
    Refused { status: u16, message: String },
}

impl ChatError {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Refused { status: 400, message: message.into() }
    }

    pub(super) fn no_model(model: &str) -> Self {
        let message = truncate(&format!("model {model:?} not found"));
        Self::Refused { status: 404, message }
    }

    pub(super) fn from_response(
        target: &str,
        status: u16,
        body: &[u8],
        retry_after: Option<Duration>,
    ) -> Self {
        let target = target.to_owned();
        let text = message(&String::from_utf8_lossy(body));
        let is_json = serde_json::from_slice::<IgnoredAny>(body).is_ok();
        let message = match status {
            // The error of a router; both APIs report an unknown model as JSON.
            404 if !is_json => format!("the target {target} does not have this API"),
            _ if text.is_empty() => format!("status {status}"),
            _ => text,
        };
        match status {
            502..=504 => Self::Unavailable { target, message: format!("{status}: {message}") },
            429 => Self::Busy { target, message, retry_after },
            408 | 425 | 500.. => Self::Failed { target, message: format!("{status}: {message}") },
            // Redirects are not followed.
            _ if status < 400 => {
                Self::Refused { status: 502, message: format!("{status}: {message}") }
            }
            _ => Self::Refused { status, message },
        }
    }

    /// Converts to the error of a job that waits until its target is reachable, which it has not been for `outage`.
    /// Delays grow with the outage, between the limits of `retry`. `random` is uniform in 0..1.
    pub(super) fn into_wait(self, retry: Retry, outage: Duration, random: f64) -> JobError {
        let delay = outage.clamp(retry.first, retry.max.max(retry.first)).mul_f64(jitter(random));
        JobError::retryable(&self).with_code(self.code()).retry_in(delay).uncharged()
    }

    /// Converts to the error of the job. `random` is uniform in 0..1.
    pub(super) fn into_error(self, retry: Retry, attempt: u32, random: f64) -> JobError {
        let code = self.code();
        let delay = retry.delay(attempt, jitter(random));
        match &self {
            Self::Unreachable { .. } | Self::Refused { .. } | Self::TooLong { .. } => {
                JobError::fatal(&self).with_code(code)
            }
            Self::Busy { retry_after, .. } => {
                let delay_max = retry_after.map(|delay| delay.min(RETRY_AFTER_MAX));
                JobError::retryable(&self).with_code(code).retry_in(delay_max.unwrap_or(delay))
            }
            Self::Unavailable { .. }
            | Self::BrokeOff { .. }
            | Self::Silent { .. }
            | Self::Failed { .. } => JobError::retryable(&self).with_code(code).retry_in(delay),
        }
    }

    fn code(&self) -> String {
        match self {
            Self::Unreachable { .. } => "target-unreachable".to_owned(),
            Self::Unavailable { .. } => "target-unavailable".to_owned(),
            Self::BrokeOff { .. } => "target-broke-off".to_owned(),
            Self::Silent { .. } => "target-silent".to_owned(),
            Self::Busy { .. } => "target-busy".to_owned(),
            Self::Failed { .. } => "target-failed".to_owned(),
            Self::TooLong { .. } => "answer-too-long".to_owned(),
            Self::Refused { status, .. } => format!("http-{status}"),
        }
    }

    pub fn status(&self) -> u16 {
        http_status(&self.code())
    }
}

/// Returns the HTTP status for a failed chat job by its error code. A rejected API key is the operator's fault and
/// becomes a 502.
pub fn http_status(code: &str) -> u16 {
    match code {
        "target-busy" => 429,
        "target-silent" | "timeout" => 504,
        "bad-input" => 400,
        code => match code.strip_prefix("http-").and_then(|status| status.parse().ok()) {
            Some(status @ 400..500) if !matches!(status, 401 | 403 | 407) => status,
            Some(_) | None => 502,
        },
    }
}

/// Returns the share of a delay: at least half of it, because ten attempts with full jitter may be over in a moment,
/// and a target that restarts must not fail its jobs.
fn jitter(random: f64) -> f64 {
    0.5 + random.clamp(0.0, 1.0) / 2.0
}

/// Extracts the error message of either API, or plain text.
fn message(body: &str) -> String {
    let read: Option<Value> = serde_json::from_str(body).ok();
    let text = read.as_ref().and_then(|body| {
        stream_error(body).or_else(|| {
            body.get("message").or_else(|| body.get("detail"))?.as_str().map(str::to_owned)
        })
    });
    truncate(text.as_deref().unwrap_or(body).trim())
}

/// Returns the error in a stream chunk, if it is one.
pub(super) fn stream_error(piece: &Value) -> Option<String> {
    let error = match piece.get("type").and_then(Value::as_str) {
        Some("error") => piece.get("error").or(Some(piece)),
        Some("response.failed") => piece.pointer("/response/error").or(Some(piece)),
        Some(_) | None => piece.get("error"),
    };
    let error = error.filter(|error| !error.is_null())?;
    let text = error.as_str().or_else(|| error.get("message")?.as_str());
    Some(truncate(&text.map_or_else(|| error.to_string(), str::to_owned)))
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn from_response(status: u16, body: &str) -> JobError {
        let failure = ChatError::from_response("laptop", status, body.as_bytes(), None);
        failure.into_error(Retry::JOB, 1, 0.5)
    }

    #[test]
    fn target_responses_map_to_errors_and_statuses() {
        let table: Vec<String> = [
            (400, r#"{"error":"invalid format"}"#),
            (401, r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#),
            (404, r#"{"error":"model 'x' not found"}"#),
            (422, r#"{"detail":"too long"}"#),
            (429, ""),
            (302, "moved"),
            (408, ""),
            (500, "out of memory"),
            (501, r#"{"error":{}}"#),
            (503, "starting"),
        ]
        .map(|(status, body)| {
            let error = from_response(status, body);
            let answer = http_status(&error.code);
            format!(
                "{status}: {} ({}) retryable {} → {answer}",
                error.message, error.code, error.retryable
            )
        })
        .into();
        insta::assert_snapshot!(table.join("\n"));
    }

    #[test]
    fn long_target_messages_are_truncated() {
        let error = from_response(400, &"ä".repeat(5_000));
        assert_eq!(error.message.chars().count(), MESSAGE_CHARS_MAX + 1);
    }

    #[test]
    fn retry_after_of_a_target_is_honoured_up_to_its_limit() {
        let retry_in = |seconds| {
            let retry_after = Some(Duration::from_secs(seconds));
            let failure = ChatError::from_response("laptop", 429, b"", retry_after);
            failure.into_error(Retry::JOB, 1, 0.5).retry_in.unwrap()
        };
        assert_eq!(retry_in(77), Duration::from_secs(77));
        assert_eq!(retry_in(1_000_000), RETRY_AFTER_MAX);
    }

    #[test]
    fn waits_for_an_unreachable_target_grow_with_its_outage() {
        let retry =
            Retry { max_attempts: 10, first: Duration::from_secs(1), max: Duration::from_mins(1) };
        let wait = |outage_s| {
            let failure =
                ChatError::Unreachable { target: "laptop".to_owned(), why: String::new() };
            let error = failure.into_wait(retry, Duration::from_secs(outage_s), 1.0);
            assert!(error.retryable && error.uncharged);
            error.retry_in.unwrap().as_secs()
        };
        assert_eq!([0, 1, 8, 3_600].map(wait), [1, 1, 8, 60]);
    }

    proptest! {
        /// With the defaults of `[chat] retry`.
        #[test]
        fn default_retries_outlast_a_minute_of_failures(randoms in proptest::collection::vec(0.0f64..1.0, 9)) {
            let retry = Retry { max_attempts: 10, first: Duration::from_secs(1), max: Duration::from_mins(1) };
            let waited: Duration = (1..).zip(randoms).map(|(attempt, random)| {
                let failure = ChatError::Unavailable { target: "laptop".to_owned(), message: String::new() };
                failure.into_error(retry, attempt, random).retry_in.unwrap()
            }).sum();
            prop_assert!(waited > Duration::from_mins(2), "{waited:?}");
        }
    }
}
