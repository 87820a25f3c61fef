//! Durations as people write them: `500ms`, `15s`, `5m`, `1h30m`, `7d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest first: the order in which units are written and must be read.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// There is nothing to read.
    #[error("a duration is empty; write one like \"15s\" or \"1h30m\"")]
    Empty,
    /// A part does not begin with a whole number.
    #[error("{text:?} is not a duration: whole numbers with units are, like \"15s\" or \"1h30m\"")]
    NotANumber {
        /// The whole text.
        text: String,
    },
    /// A number is followed by no unit.
    #[error("{text:?} is not a duration: its last number has no unit; did you mean \"{text}s\"?")]
    NoUnit {
        /// The whole text.
        text: String,
    },
    /// A number is followed by an unknown unit.
    #[error("{text:?} is not a duration: {unit:?} is not one of the units d, h, m, s, ms")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// What stands where the unit should be.
        unit: String,
    },
    /// A unit comes twice or after a smaller one.
    #[error("{text:?} is not a duration: write each unit once, the largest first, like \"1h30m\"")]
    OutOfOrder {
        /// The whole text.
        text: String,
    },
    /// More milliseconds than fit into 64 bits.
    #[error("{text:?} is too long a duration")]
    TooLong {
        /// The whole text.
        text: String,
    },
}

/// Reads a duration: whole numbers with the units `d`, `h`, `m`, `s` and `ms`, the largest first.
///
/// ```
/// # use std::time::Duration;
/// # use longhaul_client::parse_duration;
/// assert_eq!(parse_duration("1h30m")?, Duration::from_secs(90 * 60));
/// # Ok::<(), longhaul_client::DurationError>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let owned = || text.to_owned();
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        if number.is_empty() {
            return Err(DurationError::NotANumber { text: owned() });
        }
        let (unit, after) = split_where(after, |c| c.is_ascii_digit());
        if unit.is_empty() {
            return Err(DurationError::NoUnit { text: owned() });
        }
        if !UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(DurationError::UnknownUnit { text: owned(), unit: unit.to_owned() });
        }
        // Consuming the iterator is what enforces the order.
        let Some((_, unit_ms)) = units.find(|(name, _)| *name == unit) else {
            return Err(DurationError::OutOfOrder { text: owned() });
        };
        total_ms = number
            .parse::<u64>()
            .ok()
            .and_then(|count| count.checked_mul(*unit_ms))
            .and_then(|part_ms| part_ms.checked_add(total_ms))
            .ok_or_else(|| DurationError::TooLong { text: owned() })?;
        rest = after;
    }
    Ok(Duration::from_millis(total_ms))
}

fn split_where(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

/// Writes a duration so that [`parse_duration`] reads it back, to the millisecond.
///
/// ```
/// # use std::time::Duration;
/// # use longhaul_client::format_duration;
/// assert_eq!(format_duration(Duration::from_secs(90 * 60)), "1h30m");
/// assert_eq!(format_duration(Duration::ZERO), "0s");
/// ```
pub fn format_duration(duration: Duration) -> String {
    let mut rest_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if rest_ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, unit_ms) in UNITS {
        let count = rest_ms / unit_ms;
        rest_ms %= unit_ms;
        if count > 0 {
            text.push_str(&count.to_string());
            text.push_str(unit);
        }
    }
    text
}

/// A duration that is written as text on the wire and in configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(
    feature = "openapi",
    schema(value_type = String, example = "1h30m", pattern = r"^(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$")
)]
pub struct DurationText(pub Duration);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.0))
    }
}

impl FromStr for DurationText {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_duration(text).map(Self)
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
        fn what_is_written_reads_back_to_the_millisecond(ms: u64) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*|[0-9dhms]*") {
            if let Ok(duration) = parse_duration(&text) {
                prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
        }
    }

    #[test]
    fn the_usual_ones_are_read() {
        for (text, ms) in [
            ("500ms", 500),
            ("15s", 15_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("1h30m", 5_400_000),
            ("1s500ms", 1_500),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn the_longest_units_that_fit_are_written() {
        assert_eq!(format_duration(Duration::from_hours(24)), "1d");
        assert_eq!(format_duration(Duration::from_millis(90_061_001)), "1d1h1m1s1ms");
    }

    #[test]
    fn refusals_say_what_to_write_instead() {
        let refusal = |text: &str| parse_duration(text).unwrap_err().to_string();
        insta::assert_snapshot!(
            ["", "soon", "15", "1.5h", "3 s", "5min", "30m1h", "1s1s", "-5s", "99999999999999999999d"]
                .map(refusal)
                .join("\n"),
            @r#"
    a duration is empty; write one like "15s" or "1h30m"
    "soon" is not a duration: whole numbers with units are, like "15s" or "1h30m"
    "15" is not a duration: its last number has no unit; did you mean "15s"?
    "1.5h" is not a duration: "." is not one of the units d, h, m, s, ms
    "3 s" is not a duration: " s" is not one of the units d, h, m, s, ms
    "5min" is not a duration: "min" is not one of the units d, h, m, s, ms
    "30m1h" is not a duration: write each unit once, the largest first, like "1h30m"
    "1s1s" is not a duration: write each unit once, the largest first, like "1h30m"
    "-5s" is not a duration: whole numbers with units are, like "15s" or "1h30m"
    "99999999999999999999d" is too long a duration
    "#
        );
    }
}
