//! Problems of rejected submissions.

use std::time::Duration;

use axum::http::HeaderName;
use longhaul::SubmitError;

use super::{Code, Problem};

/// Retry delay at the pending quota, which is counted again every second.
const PENDING_RETRY: Duration = Duration::from_secs(1);
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        let code = match error {
            SubmitError::Store(error) => return error.into(),
            SubmitError::PendingLimit { max, .. } => return over_pending_limit(max, &error),
            SubmitError::UnknownKind { .. } => Code::UnknownKind,
            SubmitError::Input(_) => Code::InvalidJson,
            SubmitError::Limit(ref over) if over.name == "input_bytes_max" => Code::PayloadTooLarge,
            SubmitError::Limit(_) | SubmitError::Name(_) | SubmitError::Invalid(_) => {
                Code::Validation
            }
        };
        Self::new(code, error.to_string())
    }
}

/// Adds the headers of draft-ietf-httpapi-ratelimit-headers: quota, remaining quota, and seconds until a retry.
fn over_pending_limit(max: u64, error: &SubmitError) -> Problem {
    let seconds = PENDING_RETRY.as_secs();
    Problem::new(Code::PendingLimit, error.to_string())
        .retry_after(PENDING_RETRY)
        .text_header(RATE_LIMIT_POLICY, &format!("\"pending\";q={max}"))
        .text_header(RATE_LIMIT, &format!("\"pending\";r=0;t={seconds}"))
}
