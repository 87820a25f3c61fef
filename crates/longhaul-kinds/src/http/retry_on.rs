//! Failures after which a request is retried. Pure.

use std::collections::BTreeSet;

use http::StatusCode;

/// Failure of a request.
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

/// Failures after which a request is retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOn {
    statuses: BTreeSet<u16>,
    /// First digits: 5 means 500 to 599.
    classes: BTreeSet<u16>,
    connect: bool,
    timeout: bool,
    reset: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown failure {0:?}; use \"connect\", \"timeout\", \"reset\", a status from 300 to 599 such as \
     \"429\", or a class such as \"5xx\""
)]
pub struct UnknownFailureClass(String);

impl Default for RetryOn {
    /// Temporary failures: the target is down, slow or busy.
    fn default() -> Self {
        Self {
            statuses: [408, 425, 429].into(),
            classes: [5].into(),
            connect: true,
            timeout: true,
            reset: true,
        }
    }
}

impl RetryOn {
    /// Parses a list such as `["5xx", "429", "connect"]`.
    pub fn parse<'a>(
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownFailureClass> {
        let (statuses, classes) = (BTreeSet::new(), BTreeSet::new());
        let mut all = Self { statuses, classes, connect: false, timeout: false, reset: false };
        for word in words {
            match word {
                "connect" => all.connect = true,
                "timeout" => all.timeout = true,
                "reset" => all.reset = true,
                "3xx" | "4xx" | "5xx" => all.classes.extend(word.chars().next().and_then(digit)),
                word => {
                    let status = word.parse().ok().filter(|status| (300..600).contains(status));
                    all.statuses
                        .insert(status.ok_or_else(|| UnknownFailureClass(word.to_owned()))?);
                }
            }
        }
        Ok(all)
    }

    pub fn covers(&self, failure: FailureClass) -> bool {
        match failure {
            FailureClass::Status(status) => {
                let status = status.as_u16();
                self.statuses.contains(&status) || self.classes.contains(&(status / 100))
            }
            FailureClass::Connect => self.connect,
            FailureClass::Timeout => self.timeout,
            FailureClass::Reset => self.reset,
        }
    }
}

fn digit(character: char) -> Option<u16> {
    character.to_digit(10).and_then(|digit| u16::try_from(digit).ok())
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
