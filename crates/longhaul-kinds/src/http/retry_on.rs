//! Which failures are worth another attempt. Pure.

use std::collections::BTreeSet;

use http::StatusCode;

/// What went wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// The target answered with a status that is no success.
    Answered(StatusCode),
    /// No connection was made: nothing was sent.
    Connect,
    /// No whole answer came in time.
    Timeout,
    /// The connection was cut, or what came was no HTTP.
    Reset,
}

/// Failures after which a request is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOn {
    statuses: BTreeSet<u16>,
    /// First digits: 5 is all from 500 to 599.
    classes: BTreeSet<u16>,
    connect: bool,
    timeout: bool,
    reset: bool,
}

/// A word that names no failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is none of \"connect\", \"timeout\", \"reset\", a status from 300 to 599 such as \"429\", \
     or a class of them such as \"5xx\""
)]
pub struct UnknownFailureClass(String);

impl Default for RetryOn {
    /// What passes by itself: the target is down, slow or busy.
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
    /// Reads `["5xx", "429", "connect"]`.
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

    /// Whether to try again after this.
    pub fn covers(&self, trouble: FailureClass) -> bool {
        match trouble {
            FailureClass::Answered(status) => {
                let status = status.as_u16();
                self.statuses.contains(&status) || self.classes.contains(&(status / 100))
            }
            FailureClass::Connect => self.connect,
            FailureClass::Timeout => self.timeout,
            FailureClass::Reset => self.reset,
        }
    }
}

fn digit(sign: char) -> Option<u16> {
    sign.to_digit(10).and_then(|digit| u16::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16) -> FailureClass {
        FailureClass::Answered(StatusCode::from_u16(status).unwrap())
    }

    #[test]
    fn what_passes_by_itself_is_tried_again() {
        let usual = RetryOn::default();
        for status in [408, 425, 429, 500, 502, 503, 599] {
            assert!(usual.covers(answered(status)), "{status}");
        }
        for status in [200, 301, 304, 400, 401, 404, 409, 422] {
            assert!(!usual.covers(answered(status)), "{status}");
        }
        for trouble in [FailureClass::Connect, FailureClass::Timeout, FailureClass::Reset] {
            assert!(usual.covers(trouble));
        }
    }

    #[test]
    fn only_what_is_named_is_tried_again() {
        let given = RetryOn::parse(["4xx", "503", "connect"]).unwrap();
        for (trouble, again) in [
            (answered(404), true),
            (answered(503), true),
            (answered(500), false),
            (FailureClass::Connect, true),
            (FailureClass::Timeout, false),
            (FailureClass::Reset, false),
        ] {
            assert_eq!(given.covers(trouble), again, "{trouble:?}");
        }
        assert!(!RetryOn::parse([]).unwrap().covers(FailureClass::Connect));
    }

    #[test]
    fn words_that_name_nothing_are_refused() {
        for bad in ["", "2xx", "200", "600", "5XX", "50x", "-1", "refused", "4294967297"] {
            assert_eq!(RetryOn::parse([bad]), Err(UnknownFailureClass(bad.to_owned())));
        }
    }
}
