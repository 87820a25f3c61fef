//! Instants in UTC with millisecond precision.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since 1970 in UTC. RFC 3339 with milliseconds on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The largest accepted instant. Later ones cannot be written in every time zone.
    pub const MAX: Self = Self(253_402_128_000_000);

    /// Converts from milliseconds since 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the instant `duration` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis)).min(Self::MAX)
    }

    /// Returns the instant `duration` earlier.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub_unsigned(millis))
    }

    /// Returns the duration since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Parses RFC 3339, with any offset. Later instants become [`Timestamp::MAX`], because
    /// `9999-12-31T23:59:59Z` is a usual way to write "never".
    pub fn parse(text: &str) -> Option<Self> {
        match text.parse::<jiff::Timestamp>() {
            Ok(instant) => Some(Self(instant.as_millisecond()).min(Self::MAX)),
            Err(_) => is_after_all(text).then_some(Self::MAX),
        }
    }
}

/// Returns whether the text is an instant of the last days of the year 9999, which jiff's timestamps cannot represent.
fn is_after_all(text: &str) -> bool {
    let Ok(pieces) = jiff::fmt::temporal::Pieces::parse(text) else { return false };
    let date = pieces.date();
    let is_instant = pieces.time().is_some() && pieces.to_numeric_offset().is_some();
    is_instant && date.year() == 9999 && date.month() == 12 && date.day() >= 30
}

impl From<Timestamp> for SystemTime {
    /// Converts to system time. Instants before 1970 become 1970.
    fn from(at: Timestamp) -> Self {
        Self::UNIX_EPOCH + at.since(Timestamp(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not an RFC 3339 instant")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_form_always_has_milliseconds_and_utc() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        let at = Timestamp::parse("2026-11-15T10:00:00.1234+02:00").unwrap();
        assert_eq!(at.to_string(), "2026-11-15T08:00:00.123Z");
        assert_eq!(Timestamp::parse(&Timestamp::MAX.to_string()), Some(Timestamp::MAX));
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn instants_after_the_largest_one_become_it() {
        for text in [
            "9999-12-30T00:00:00.001Z",
            "9999-12-30T22:00:01Z",
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59.999-23:59",
        ] {
            assert_eq!(Timestamp::parse(text), Some(Timestamp::MAX), "{text}");
        }
        for text in ["9999-12-31", "9999-12-31T23:59:59", "10000-01-01T00:00:00Z", "9999-13-31T00Z"]
        {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), Duration::ZERO);
        assert_eq!(Timestamp::from_millis(5).after(Duration::MAX), Timestamp::MAX);
    }
}
