//! Durations as text: `500ms`, `15s`, `5m`, `1h30m`, `7d`.

use std::time::Duration;

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

/// Parses a duration: whole numbers with the units `d`, `h`, `m`, `s` and `ms`, the largest first.
///
/// ```
/// # use std::time::Duration;
/// # use longhaul::job::parse_duration;
/// assert_eq!(parse_duration("1h30m")?, Duration::from_secs(90 * 60));
/// # Ok::<(), longhaul::job::DurationError>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
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

/// Formats a duration so that [`parse_duration`] reads it back, to the millisecond.
///
/// ```
/// # use std::time::Duration;
/// # use longhaul::job::format_duration;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn formatted_duration_parses_back_to_the_millisecond(ms: u64) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn duration_parser_never_panics(text in "\\PC*|[0-9dhms]*") {
            if let Ok(duration) = parse_duration(&text) {
                prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
        }
    }

    #[test]
    fn common_durations_are_parsed() {
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
    fn durations_are_formatted_in_the_largest_units() {
        assert_eq!(format_duration(Duration::from_hours(24)), "1d");
        assert_eq!(format_duration(Duration::from_millis(90_061_001)), "1d1h1m1s1ms");
    }

    #[test]
    fn duration_errors_name_the_correction() {
        let error = |text: &str| parse_duration(text).unwrap_err().to_string();
        insta::assert_snapshot!(
            ["", "soon", "15", "1.5h", "3 s", "5min", "30m1h", "1s1s", "-5s", "99999999999999999999d"]
                .map(error)
                .join("\n"),
            @r#"
    "" is not a duration: write whole numbers with units, for example "15s" or "1h30m"
    "soon" is not a duration: write whole numbers with units, for example "15s" or "1h30m"
    "15" is not a duration: every number needs one of the units d, h, m, s, ms
    "1.5h" is not a duration: every number needs one of the units d, h, m, s, ms
    "3 s" is not a duration: every number needs one of the units d, h, m, s, ms
    "5min" is not a duration: every number needs one of the units d, h, m, s, ms
    "30m1h" is not a duration: write each unit once, the largest first, for example "1h30m"
    "1s1s" is not a duration: write each unit once, the largest first, for example "1h30m"
    "-5s" is not a duration: write whole numbers with units, for example "15s" or "1h30m"
    "99999999999999999999d" is not a duration: it is too long
    "#
        );
    }
}
