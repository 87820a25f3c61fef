//! Human-readable instants and durations.

use std::time::Duration;

use longhaul::job::Timestamp;
use longhaul_client::wire::Instant;

/// Formats a duration in its two largest units: `350ms`, `4.2s`, `3m 12s`, `2h 5m`, `3d 4h`.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let pair = |large: u64, unit, rest: u64, small| match rest {
        0 => format!("{large}{unit}"),
        rest => format!("{large}{unit} {rest}{small}"),
    };
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3_600 => pair(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// Formats an instant relative to now, for example `3s ago` or `in 5m`.
pub(crate) fn relative(now: Timestamp, at: &Instant) -> String {
    let Some(at) = Timestamp::parse(at.as_str()) else { return at.to_string() };
    if at > now {
        format!("in {}", age(at.since(now)))
    } else {
        format!("{} ago", age(now.since(at)))
    }
}

/// Formats an age, for example `3s`.
pub(crate) fn age_of(now: Timestamp, at: &Instant) -> String {
    Timestamp::parse(at.as_str()).map_or_else(|| at.to_string(), |at| age(now.since(at)))
}

/// Returns the duration between two instants.
pub(crate) fn between(from: &Instant, to: &Instant) -> Option<Duration> {
    Some(Timestamp::parse(to.as_str())?.since(Timestamp::parse(from.as_str())?))
}

/// Returns the duration until a future instant.
pub(crate) fn until(now: Timestamp, at: &Instant) -> Option<Duration> {
    let at = Timestamp::parse(at.as_str())?;
    (at > now).then(|| at.since(now))
}

/// Formats the time of day in UTC, for example `08:00:00Z`.
pub(crate) fn clock_time(now: Timestamp) -> String {
    let text = now.to_string();
    text.get(11..19).map_or(text.clone(), |time| format!("{time}Z"))
}

pub(crate) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_use_their_two_largest_units() {
        let spans = [0, 350, 4_230, 42_900, 60_000, 192_000, 7_500_000, 273_600_000];
        let text = spans.map(|ms| span(Duration::from_millis(ms))).join(", ");
        insta::assert_snapshot!(text, @"0ms, 350ms, 4.2s, 42s, 1m, 3m 12s, 2h 5m, 3d 4h");
    }

    #[test]
    fn instants_are_formatted_relative_to_now() {
        let now = Timestamp::parse("2026-11-15T08:00:00.000Z").unwrap();
        let text = [
            "2026-11-15T07:59:57.100Z",
            "2026-11-15T08:05:00.000Z",
            "2026-11-13T08:00:00.000Z",
            "later",
        ]
        .map(|at| relative(now, &at.into()))
        .join(", ");
        insta::assert_snapshot!(text, @"2s ago, in 5m, 2d ago, later");
        assert_eq!(clock_time(now), "08:00:00Z");
    }
}
