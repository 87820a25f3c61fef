//! Planted bugs: the simulation has to find each of them.

use super::{SEEDS, simulate};

/// A bug of the wrapper around the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// The control: no bug.
    None,
    /// Checkpoints and notifications do not show cancellations; renewals do.
    CancellationHidden,
    /// Rescues in an outage look like successful ones.
    OutageHidden,
    /// Renewals go on over a connection that is silent.
    SilentConnectionKept,
    /// Idempotency keys are not stored.
    KeyIgnored,
    /// Claims return no finished steps.
    ClaimHidesSteps,
}

/// Returns the violation that a bug causes.
fn violation(bug: Bug) -> String {
    let found = (0..SEEDS).find_map(|seed| {
        let run = simulate(seed, bug);
        run.verdict.err().map(|violation| (seed, violation.0))
    });
    let (seed, violation) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
    println!("seed {seed}: {violation}");
    violation
}

macro_rules! planted {
    ($($name:ident: $bug:ident breaks $rules:pat,)*) => {
        $(#[test]
        fn $name() {
            let violation = violation(Bug::$bug);
            let rule = violation.split(' ').next().unwrap();
            assert!(matches!(rule, $rules), "{violation}");
        })*
    };
}

planted! {
    simulation_finds_hidden_cancellations: CancellationHidden breaks "[cancel]",
    simulation_finds_hidden_outages: OutageHidden breaks "[charge]",
    simulation_finds_a_silent_connection_that_is_kept: SilentConnectionKept breaks "[charge]",
    simulation_finds_ignored_idempotency_keys: KeyIgnored breaks "[key]",
    simulation_finds_claims_that_hide_steps: ClaimHidesSteps breaks "[repeated]" | "[outputs]" | "[end]",
}
