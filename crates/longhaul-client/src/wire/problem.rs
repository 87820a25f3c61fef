//! Problem documents: the body of every response outside 2xx.

use std::fmt;

responses! {
    /// A rejected request, as RFC 9457 (`application/problem+json`) with a stable code.
    pub struct Problem {
        /// URI of the problem type.
        pub r#type: String,
        /// Short description of the problem type.
        pub title: String,
        /// HTTP status.
        pub status: u16,
        /// Description of this occurrence, and the remedy.
        pub detail: String,
        /// Stable identifier, for example `job-not-found`.
        pub code: String,
        /// Id of the request in the server's log.
        pub request_id: String,
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.detail.is_empty() { &self.title } else { &self.detail };
        write!(f, "{text} ({} {})", self.status, self.code)
    }
}

impl std::error::Error for Problem {}
