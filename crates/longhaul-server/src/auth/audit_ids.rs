//! Ids of audit entries.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use longhaul::Timestamp;
use ulid::{Generator, Overflow};

/// Generator of ids that rise with every entry of this process, also within a millisecond and when the clock is set
/// back. The log is listed by id, so that it shows the actions of a replica in their order.
#[derive(Debug)]
pub(super) struct AuditIds(Mutex<Generator>);

impl Default for AuditIds {
    fn default() -> Self {
        Self(Mutex::new(Generator::new()))
    }
}

impl AuditIds {
    pub(super) fn next(&self, at: Timestamp) -> String {
        let millis = u64::try_from(at.as_millis()).unwrap_or(0);
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        let mut generator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = generator.generate_from_datetime(time);
        // The random part has 80 bits, so that it does not overflow in practice.
        id.unwrap_or_else(Overflow::commit_overflow_increment).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_ids_rise_within_a_millisecond_and_when_the_clock_is_set_back() {
        let ids = AuditIds::default();
        let times = [5_000, 5_000, 5_000, 4_000, -1, 5_001, 5_001, i64::MAX >> 16];
        let made: Vec<String> =
            times.iter().map(|millis| ids.next(Timestamp::from_millis(*millis))).collect();
        assert!(made.is_sorted_by(|one, next| one < next), "{made:?}");
    }
}
