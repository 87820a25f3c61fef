//! Why an attempt at a chat failed, and what follows from it.

use std::time::Duration;

use longhaul::{JobError, Retry};
use serde_json::Value;

/// What is kept of what a target says.
const MESSAGE_CHARS_MAX: usize = 1_024;
/// The longest that a target's wish to be left alone is heeded.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// It could not be asked: no connection, a gateway that says so, or a connection that was closed without an answer.
    #[error("the target {target} cannot be reached: {why}")]
    Unreachable {
        /// Its name.
        target: String,
        /// What was found out.
        why: String,
    },
    /// It stopped in the middle.
    #[error("the target {target} broke off in the middle of its answer: {why}")]
    BrokeOff {
        /// Its name.
        target: String,
        /// What was found out.
        why: String,
    },
    /// It says nothing.
    #[error("the target {target} said nothing for {for_s} s")]
    Silent {
        /// Its name.
        target: String,
        /// In seconds.
        for_s: u64,
    },
    /// It has too much to do.
    #[error("the target {target} is busy: {message}")]
    Busy {
        /// Its name.
        target: String,
        /// What it says.
        message: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// It failed.
    #[error("the target {target} failed: {message}")]
    Failed {
        /// Its name.
        target: String,
        /// What it says.
        message: String,
    },
    /// The call is wrong: asking again would not help. The status is HTTP's.
    #[error("{message}")]
    Refused {
        /// As the target, or we, would answer.
        status: u16,
        /// What is wrong.
        message: String,
    },
}

impl ChatError {
    /// No target has this model.
    pub(super) fn no_model(model: &str) -> Self {
        let message = cut(&format!("model {model:?} not found"));
        Self::Refused { status: 404, message }
    }

    /// What a target answered instead of an answer.
    pub(super) fn answered(
        target: &str,
        status: u16,
        body: &[u8],
        retry_after: Option<Duration>,
    ) -> Self {
        let target = target.to_owned();
        let said = message(&String::from_utf8_lossy(body));
        let message = if said.is_empty() { format!("it answered {status}") } else { said };
        match status {
            502..=504 => Self::Unreachable { target, why: format!("{status}: {message}") },
            429 => Self::Busy { target, message, retry_after },
            408 | 425 | 500.. => Self::Failed { target, message: format!("{status}: {message}") },
            // A redirect is no answer, and is not followed.
            _ if status < 400 => {
                Self::Refused { status: 502, message: format!("{status}: {message}") }
            }
            _ => Self::Refused { status, message },
        }
    }

    /// The error of the job. `random` is uniform in 0..1.
    ///
    /// Delays have jitter, but are never less than half of what they may be: ten tries with full jitter may be over
    /// in a moment, and a laptop that is opened again after a minute must find its jobs.
    pub(super) fn into_error(self, retry: Retry, attempt: u32, random: f64) -> JobError {
        let code = self.code();
        let delay = retry.delay(attempt, 0.5 + random.clamp(0.0, 1.0) / 2.0);
        match &self {
            Self::Refused { .. } => JobError::fatal(&self).with_code(code),
            Self::Busy { retry_after, .. } => {
                let asked = retry_after.map(|asked| asked.min(RETRY_AFTER_MAX));
                JobError::retryable(&self).with_code(code).retry_in(asked.unwrap_or(delay))
            }
            Self::Unreachable { .. }
            | Self::BrokeOff { .. }
            | Self::Silent { .. }
            | Self::Failed { .. } => JobError::retryable(&self).with_code(code).retry_in(delay),
        }
    }

    fn code(&self) -> String {
        match self {
            Self::Unreachable { .. } => "target-unreachable".to_owned(),
            Self::BrokeOff { .. } => "target-broke-off".to_owned(),
            Self::Silent { .. } => "target-silent".to_owned(),
            Self::Busy { .. } => "target-busy".to_owned(),
            Self::Failed { .. } => "target-failed".to_owned(),
            Self::Refused { status, .. } => format!("http-{status}"),
        }
    }

    /// The HTTP status that it is answered with.
    pub fn status(&self) -> u16 {
        http_status(&self.code())
    }
}

/// The HTTP status for a chat job that failed with this code. That a target refuses the operator's own key is not the
/// caller's affair.
pub fn http_status(code: &str) -> u16 {
    match code {
        "target-busy" => 429,
        "target-silent" | "timeout" => 504,
        "bad-input" => 400,
        code => {
            let refused = code.strip_prefix("http-").and_then(|status| status.parse().ok());
            refused.filter(|status| (400..500).contains(status)).map_or(
                502,
                |status| match status {
                    401 | 403 | 407 => 502,
                    status => status,
                },
            )
        }
    }
}

/// What a target says of an error, in either API, or as a plain text.
fn message(body: &str) -> String {
    let read: Option<Value> = serde_json::from_str(body).ok();
    let said = read.as_ref().and_then(|body| {
        in_stream(body).or_else(|| {
            body.get("message").or_else(|| body.get("detail"))?.as_str().map(str::to_owned)
        })
    });
    cut(said.as_deref().unwrap_or(body).trim())
}

/// The error that a piece of an answer may be.
pub(super) fn in_stream(piece: &Value) -> Option<String> {
    let error = piece.get("error").filter(|error| !error.is_null())?;
    let text = error.as_str().or_else(|| error.get("message")?.as_str());
    Some(cut(&text.map_or_else(|| error.to_string(), str::to_owned)))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answered(status: u16, body: &str) -> JobError {
        let failure = ChatError::answered("laptop", status, body.as_bytes(), None);
        failure.into_error(Retry::JOB, 1, 0.5)
    }

    #[test]
    fn what_a_target_says_decides_what_follows() {
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
            let error = answered(status, body);
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
    fn long_messages_are_cut() {
        let error = answered(400, &"ä".repeat(5_000));
        assert_eq!(error.message.chars().count(), MESSAGE_CHARS_MAX + 1);
    }

    #[test]
    fn wish_to_be_left_alone_is_heeded_within_reason() {
        let retry_in = |asked_s| {
            let asked = Some(Duration::from_secs(asked_s));
            let failure = ChatError::answered("laptop", 429, b"", asked);
            failure.into_error(Retry::JOB, 1, 0.5).retry_in.unwrap()
        };
        assert_eq!(retry_in(77), Duration::from_secs(77));
        assert_eq!(retry_in(1_000_000), RETRY_AFTER_MAX);
    }

    proptest! {
        /// The defaults of `[chat] retry`.
        #[test]
        fn target_that_is_down_for_a_minute_fails_no_job(randoms in proptest::collection::vec(0.0f64..1.0, 9)) {
            let retry = Retry { max_attempts: 10, first: Duration::from_secs(1), max: Duration::from_mins(1) };
            let waited: Duration = (1..).zip(randoms).map(|(attempt, random)| {
                let failure = ChatError::Unreachable { target: "laptop".to_owned(), why: String::new() };
                failure.into_error(retry, attempt, random).retry_in.unwrap()
            }).sum();
            prop_assert!(waited > Duration::from_mins(2), "{waited:?}");
        }
    }
}
