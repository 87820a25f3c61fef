//! The wire type of the client crate and the parser of the engine read the same durations.

use longhaul::job::{format_duration, parse_duration};
use longhaul_client::DurationText;
use proptest::prelude::*;

proptest! {
    #[test]
    fn client_and_engine_parse_the_same_durations(text in "[0-9]{0,3}[dhms]{0,2}[0-9]{0,20}[a-z]{0,2}") {
        let (wire, engine) = (text.parse::<DurationText>(), parse_duration(&text));
        prop_assert_eq!(wire.as_ref().map(|wire| wire.0).ok(), engine.as_ref().ok().copied());
        if let (Err(wire), Err(engine)) = (&wire, &engine) {
            prop_assert_eq!(wire.to_string(), engine.to_string());
        }
    }

    #[test]
    fn client_and_engine_format_durations_alike(ms: u64) {
        let duration = std::time::Duration::from_millis(ms);
        prop_assert_eq!(DurationText(duration).to_string(), format_duration(duration));
    }
}
