//! Durations as text on the wire: `500ms`, `15s`, `5m`, `1h30m`, `7d`.
//!
//! The engine has the same format in `longhaul::job`. This crate does not depend on the engine, and
//! a test of the server compares the two.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units, the largest first: the order in which they must appear.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Error for a text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: {reason}")]
pub struct DurationError {
    text: String,
    reason: &'static str,
}

fn parse(text: &str) -> Result<Duration, DurationError> {
    let error = |reason| Err(DurationError { text: text.to_owned(), reason });
    let (mut rest, mut units, mut total_ms) = (text, UNITS.iter(), 0_u64);
    loop {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        if number.is_empty() {
            return error("write whole numbers with units, for example \"15s\" or \"1h30m\"");
        }
        let (unit, after) = split_where(after, |c| c.is_ascii_digit());
        if !UNITS.iter().any(|(name, _)| *name == unit) {
            return error("every number needs one of the units d, h, m, s, ms");
        }
        // Consuming the iterator is what enforces the order.
        let Some((_, unit_ms)) = units.find(|(name, _)| *name == unit) else {
            return error("write each unit once, the largest first, for example \"1h30m\"");
        };
        let part_ms = number.parse::<u64>().ok().and_then(|count| count.checked_mul(*unit_ms));
        let Some(sum) = part_ms.and_then(|part_ms| part_ms.checked_add(total_ms)) else {
            return error("it is too long");
        };
        (rest, total_ms) = (after, sum);
        if rest.is_empty() {
            return Ok(Duration::from_millis(total_ms));
        }
    }
}

fn split_where(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

/// Duration that is serialized as text, for example `1h30m`, to the millisecond.
///
/// ```
/// # use std::time::Duration;
/// # use longhaul_client::DurationText;
/// let retention: DurationText = "1h30m".parse()?;
/// assert_eq!(retention.0, Duration::from_secs(90 * 60));
/// assert_eq!(retention.to_string(), "1h30m");
/// # Ok::<(), longhaul_client::DurationError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(
    feature = "openapi",
    schema(
        value_type = String,
        example = "1h30m",
        min_length = 2,
        pattern = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"
    )
)]
pub struct DurationText(pub Duration);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest_ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest_ms == 0 {
            return f.write_str("0s");
        }
        for (unit, unit_ms) in UNITS {
            if rest_ms >= unit_ms {
                write!(f, "{}{unit}", rest_ms / unit_ms)?;
                rest_ms %= unit_ms;
            }
        }
        Ok(())
    }
}

impl FromStr for DurationText {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self)
    }
}

impl From<Duration> for DurationText {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl Serialize for DurationText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn duration_text_parses_back_to_the_millisecond(ms: u64) {
            let duration = DurationText(Duration::from_millis(ms));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
