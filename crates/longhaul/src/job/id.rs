//! Job ids: ULIDs, so that newer jobs have greater ids.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

use super::Timestamp;

/// A buffer for the characters of an id.
pub(crate) type EncodedId = [u8; ulid::ULID_LEN];

/// The id of a job: a ULID of 26 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(Ulid);

impl JobId {
    /// Builds an id from its time and 80 random bits.
    pub fn from_parts(at: Timestamp, random: u128) -> Self {
        Self(Ulid::from_parts(u64::try_from(at.as_millis()).unwrap_or(0), random))
    }

    /// Writes the id's characters to a buffer.
    pub(crate) fn encode(self, buffer: &mut EncodedId) -> &str {
        self.0.array_to_str(buffer)
    }

    pub(super) fn random(self) -> u128 {
        self.0.random()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // 26 characters have two bits more than an id; texts that use them are rejected.
        let id = Ulid::from_string(text).map_err(|_| ())?;
        let is_same = Self(id).encode(&mut EncodedId::default()).eq_ignore_ascii_case(text);
        if is_same { Ok(Self(id)) } else { Err(()) }
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| serde::de::Error::custom(format!("{text:?} is not a job id")))
    }
}

/// A generator of increasing ids, even within a millisecond and when the clock steps back, so that
/// sorting by id is the order of acceptance.
#[derive(Debug, Default)]
pub struct IdSource {
    /// Locked for a comparison, never across an await.
    last: Mutex<Option<Ulid>>,
}

impl IdSource {
    /// Returns the next id for this time and these random bits.
    pub fn next(&self, now: Timestamp, random: u128) -> JobId {
        let JobId(fresh) = JobId::from_parts(now, random);
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let id = match *last {
            Some(last) if last >= fresh => last.increment().unwrap_or(fresh),
            Some(_) | None => fresh,
        };
        *last = Some(id);
        JobId(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_inside_one_millisecond_and_when_the_clock_steps_back() {
        let source = IdSource::default();
        let ids: Vec<JobId> = [(5, 9), (5, 3), (4, 7), (6, 0)]
            .into_iter()
            .map(|(at, random)| source.next(Timestamp::from_millis(at), random))
            .collect();
        assert!(ids.is_sorted());
        assert_eq!(ids.len(), ids.iter().collect::<std::collections::HashSet<_>>().len());
    }

    #[test]
    fn id_reads_back_from_its_text() {
        let id = JobId::from_parts(Timestamp::from_millis(1_763_000_000_000), 42);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_lowercase().parse(), Ok(id));
        assert_eq!(id.to_string().replacen('0', "8", 1).parse::<JobId>(), Err(()));
        assert_eq!("not-an-id".parse::<JobId>(), Err(()));
    }
}
