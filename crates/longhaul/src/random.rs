//! Random numbers for ids and delays, which a simulation repeats from a seed. Keys and nonces come from the operating
//! system instead.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::sync::Mutex;

/// Source of the random numbers of one engine.
pub(crate) struct RandomSource {
    /// `None` for the generator of the thread.
    seeded: Option<Mutex<StdRng>>,
}

impl RandomSource {
    /// Creates a source whose numbers follow from the seed, if there is one.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self { seeded: seed.map(|seed| Mutex::new(StdRng::seed_from_u64(seed))) }
    }

    /// Returns a number from 0 to 1, for the jitter of a delay.
    pub(crate) fn fraction(&self) -> f64 {
        self.seeded.as_ref().map_or_else(rand::random, |seeded| seeded.lock().random())
    }

    /// Returns the random part of an id.
    pub(crate) fn bits(&self) -> u128 {
        self.seeded.as_ref().map_or_else(rand::random, |seeded| seeded.lock().random())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed() {
        let draw = |seed| RandomSource::new(seed).bits();
        assert_eq!(draw(Some(1)), draw(Some(1)));
        assert_ne!(draw(Some(1)), draw(Some(2)));
        assert_ne!(draw(None), draw(None));
    }
}
