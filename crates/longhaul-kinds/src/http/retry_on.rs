//! Failures after which a request is retried. Pure.

use std::collections::BTreeSet;

use http::StatusCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// The target responded with this error status.
    Status(StatusCode),
    /// No connection. Nothing was sent.
    Connect,
    Timeout,
    /// The connection was closed, or the response was not valid HTTP.
    Reset,
}

/// Failures after which a request is retried, by their names: `429`, `5xx` or `connect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOn(BTreeSet<String>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown failure {0:?}; use \"connect\", \"timeout\", \"reset\", a status from 300 to 599 such as \
     \"429\", or a class such as \"5xx\""
)]
pub struct UnknownFailureClass(String);

impl Default for RetryOn {
    /// Temporary failures: the target is down, slow or busy.
    fn default() -> Self {
        let temporary = ["408", "425", "429", "5xx", "connect", "timeout", "reset"];
        Self(temporary.map(str::to_owned).into())
    }
}

impl RetryOn {
    /// Parses a list such as `["5xx", "429", "connect"]`.
    pub fn parse<'a>(
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownFailureClass> {
        let known = |word: &str| match word {
            "connect" | "timeout" | "reset" | "3xx" | "4xx" | "5xx" => Ok(word.to_owned()),
            word => match word.parse::<u16>() {
                Ok(status @ 300..600) => Ok(status.to_string()),
                Ok(_) | Err(_) => Err(UnknownFailureClass(word.to_owned())),
            },
        };
        Ok(Self(words.into_iter().map(known).collect::<Result<_, _>>()?))
    }

    pub fn covers(&self, failure: FailureClass) -> bool {
        match failure {
            FailureClass::Status(status) => {
                let class = format!("{}xx", status.as_u16() / 100);
                self.0.contains(status.as_str()) || self.0.contains(&class)
            }
            FailureClass::Connect => self.0.contains("connect"),
            FailureClass::Timeout => self.0.contains("timeout"),
            FailureClass::Reset => self.0.contains("reset"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_status(status: u16) -> FailureClass {
        FailureClass::Status(StatusCode::from_u16(status).unwrap())
    }

    #[test]
    fn temporary_failures_are_retried_by_default() {
        let usual = RetryOn::default();
        for status in [408, 425, 429, 500, 502, 503, 599] {
            assert!(usual.covers(with_status(status)), "{status}");
        }
        for status in [200, 301, 304, 400, 401, 404, 409, 422] {
            assert!(!usual.covers(with_status(status)), "{status}");
        }
        for failure in [FailureClass::Connect, FailureClass::Timeout, FailureClass::Reset] {
            assert!(usual.covers(failure));
        }
    }

    #[test]
    fn only_listed_failures_are_retried() {
        let given = RetryOn::parse(["4xx", "503", "connect"]).unwrap();
        for (failure, retried) in [
            (with_status(404), true),
            (with_status(503), true),
            (with_status(500), false),
            (FailureClass::Connect, true),
            (FailureClass::Timeout, false),
            (FailureClass::Reset, false),
        ] {
            assert_eq!(given.covers(failure), retried, "{failure:?}");
        }
        assert!(!RetryOn::parse([]).unwrap().covers(FailureClass::Connect));
    }

    #[test]
    fn unknown_failures_are_rejected() {
        for bad in ["", "2xx", "200", "600", "5XX", "50x", "-1", "refused", "4294967297"] {
            assert_eq!(RetryOn::parse([bad]), Err(UnknownFailureClass(bad.to_owned())));
        }
    }
}
