//! Plan of a run: everything that follows from the seed before the run begins.

use std::time::Duration;

use longhaul::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// An arbitrary instant.
pub(super) const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// The engine's default.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// Time without other faults before and after an outage or a freeze, so that each lease has to survive one fault only.
const RECOVERY: Duration = Duration::from_secs(35);

/// A plan of faults, latencies and changes of the cluster.
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) replicas: usize,
    pub(super) clients: usize,
    /// Jobs that a replica runs at the same time.
    pub(super) concurrency: usize,
    pub(super) traffic: Traffic,
    pub(super) outages: Vec<Outage>,
    pub(super) freezes: Vec<Freeze>,
    pub(super) departures: Vec<Departure>,
    /// End of all faults.
    pub(super) heals_at: Timestamp,
}

/// Frequencies of latencies and of faults of single calls.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Maximum latency of most requests and of most responses, in milliseconds.
    pub(super) latency_ms: u64,
    /// Calls that take up to 3 s, per thousand.
    pub(super) slow_per_mille: u32,
    /// Calls that fail before or after their commit, per thousand.
    pub(super) errors_per_mille: u32,
    /// Calls whose connection dies without a word, per thousand.
    pub(super) silences_per_mille: u32,
    pub(super) lost_notifications_percent: u32,
}

/// A time in which no call gets through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    /// The only replica that it affects; `None` for all.
    pub(super) replica: Option<usize>,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    /// Calls that get no response instead of an error.
    pub(super) silent_percent: u32,
}

/// The silent death of all connections of a replica. Calls that begin later use new ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Freeze {
    pub(super) replica: usize,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

/// The end of an engine, and the start of another one in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    pub(super) replica: usize,
    pub(super) at: Timestamp,
    pub(super) back_at: Timestamp,
    /// True if its process is killed, false if it is stopped.
    pub(super) is_kill: bool,
}

/// The way in which a call gets no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// An error.
    Error,
    /// Nothing, until a limit of the store or for ever.
    Silence,
}

/// Derives an independent seed.
pub(super) fn derive(seed: u64, parts: &[u64]) -> u64 {
    parts.iter().fold(seed, |seed, part| {
        // SplitMix64.
        let mut mixed = (seed ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(derive(seed, &[0]));
        let replicas = random.random_range(2..=4);
        let mut plan = Self {
            seed,
            replicas,
            clients: random.random_range(2..=4),
            concurrency: random.random_range(2..=6),
            traffic: Traffic::draw(&mut random),
            outages: Vec::new(),
            freezes: Vec::new(),
            departures: Vec::new(),
            heals_at: START,
        };
        plan.draw_faults(&mut random);
        plan
    }

    fn draw_faults(&mut self, random: &mut StdRng) {
        let heals_at = START.after(seconds(random, 90.0, 200.0));
        let mut at = START.after(seconds(random, 3.0, 20.0));
        // End of the recovery of each replica from its last fault.
        let mut recovered = vec![START; self.replicas];
        while at < heals_at {
            let replica = random.random_range(0..self.replicas);
            match random.random_range(0..100) {
                0..25 => {
                    let from = recovered.iter().copied().fold(at, Timestamp::max);
                    let outage = draw_outage(random, None, from);
                    recovered.fill(outage.until.after(RECOVERY));
                    at = outage.until;
                    self.outages.push(outage);
                }
                25..45 => {
                    let outage = draw_outage(random, Some(replica), at.max(recovered[replica]));
                    recovered[replica] = outage.until.after(RECOVERY);
                    self.outages.push(outage);
                }
                45..70 => {
                    let from = at.max(recovered[replica]);
                    let until = from.after(seconds(random, 0.0, 0.5));
                    recovered[replica] = until.after(RECOVERY);
                    self.freezes.push(Freeze { replica, from, until });
                }
                _ => self.draw_departure(random, replica, at),
            }
            at = at.after(seconds(random, 1.0, 20.0));
        }
        let ends = self.outages.iter().map(|outage| outage.until);
        self.heals_at = ends.fold(heals_at, Timestamp::max);
    }

    fn draw_departure(&mut self, random: &mut StdRng, replica: usize, at: Timestamp) {
        let last = self.departures.iter().rev().find(|other| other.replica == replica);
        if last.is_some_and(|last| at < last.back_at.after(Duration::from_secs(30))) {
            return;
        }
        let (is_kill, back_at) = (random.random_bool(0.6), at.after(seconds(random, 0.5, 30.0)));
        self.departures.push(Departure { replica, at, back_at, is_kill });
    }

    /// Returns when an engine may start that should start at `at`. One that starts in an outage, or soon after one, may
    /// not have seen it and would rescue at once, as documented.
    pub(super) fn start_after(&self, at: Timestamp) -> Timestamp {
        let of_all = self.outages.iter().filter(|outage| outage.replica.is_none());
        let blind = of_all
            .map(|outage| (outage.from.before(Duration::from_secs(15)), outage.until.after(LEASE)));
        blind.fold(at, |at, (from, until)| if from <= at && at < until { until } else { at })
    }

    /// Returns how a message that travels from `sent_at` to `at` is lost, if it is. `random` is uniform in 0..100.
    pub(super) fn loss(
        &self,
        replica: usize,
        sent_at: Timestamp,
        at: Timestamp,
        random: u32,
    ) -> Option<Loss> {
        let outage = self.outages.iter().find(|outage| {
            outage.replica.is_none_or(|one| one == replica)
                && outage.from <= at
                && at < outage.until
        });
        if let Some(outage) = outage {
            let is_silent = random < outage.silent_percent;
            return Some(if is_silent { Loss::Silence } else { Loss::Error });
        }
        let is_frozen = self.freezes.iter().any(|freeze| {
            freeze.replica == replica && freeze.from <= at && sent_at <= freeze.until
        });
        is_frozen.then_some(Loss::Silence)
    }

    /// Returns whether the replica has recovered from the last fault of its connections, and none begins soon.
    pub(super) fn is_calm(&self, replica: usize, at: Timestamp) -> bool {
        let is_near = |from: Timestamp, until: Timestamp| {
            from.before(RECOVERY) <= at && at < until.after(RECOVERY)
        };
        let outages = self.outages.iter();
        let freezes = self.freezes.iter();
        !outages
            .filter(|outage| outage.replica.is_none_or(|one| one == replica))
            .any(|outage| is_near(outage.from, outage.until))
            && !freezes
                .filter(|freeze| freeze.replica == replica)
                .any(|freeze| is_near(freeze.from, freeze.until))
    }

    /// Returns for how long, from `from` until `until`, this replica alone could not reach the store.
    pub(super) fn alone_for(&self, replica: usize, from: Timestamp, until: Timestamp) -> Duration {
        let own = self.outages.iter().filter(|outage| outage.replica == Some(replica));
        own.map(|outage| outage.until.min(until).since(outage.from.max(from))).sum()
    }
}

impl Traffic {
    fn draw(random: &mut StdRng) -> Self {
        let mut one_of = |choices: [u32; 4]| choices[random.random_range(0..4)];
        Self {
            latency_ms: u64::from(one_of([2, 10, 50, 300])),
            slow_per_mille: one_of([0, 0, 20, 100]),
            errors_per_mille: one_of([0, 5, 20, 80]),
            silences_per_mille: one_of([0, 2, 10, 30]),
            lost_notifications_percent: one_of([0, 20, 50, 100]),
        }
    }
}

fn draw_outage(random: &mut StdRng, replica: Option<usize>, from: Timestamp) -> Outage {
    let lasts = match random.random_range(0..3) {
        0 => seconds(random, 0.5, 5.0),
        1 => seconds(random, 5.0, 15.0),
        _ => seconds(random, 15.0, 60.0),
    };
    let silent_percent = [0, 50, 100][random.random_range(0..3)];
    Outage { replica, from, until: from.after(lasts), silent_percent }
}

/// Draws a duration in whole milliseconds.
pub(super) fn seconds(random: &mut StdRng, from: f64, to: f64) -> Duration {
    let seconds = Duration::from_secs_f64(random.random_range(from..to));
    Duration::from_millis(u64::try_from(seconds.as_millis()).unwrap())
}
