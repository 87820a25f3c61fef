//! Keeps the places of this replica filled.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio_util::task::TaskTracker;

use super::attempt::Runner;
use super::slots::SlotReservation;
use crate::job::{Retry, Timestamp};
use crate::store::{Claim, ClaimResult, StoreError};

/// The most that one claim takes: enough to fill a large replica in a few calls, small enough to
/// leave the store to others in between.
const CLAIM_BATCH_MAX: usize = 256;
/// How many claims are under way at once while there is more than one of them can take: one waits for
/// its sync while the other looks.
const CLAIMS_MAX: usize = 2;
/// A further claim is for at least so many: small ones cost the store more than they gain.
const FURTHER_MIN: usize = 64;
/// How often there is a look for work that nobody announced.
const POLL: Duration = Duration::from_secs(1);
/// How the looks get rarer while the store fails.
const FAILING: Retry = Retry { max_attempts: u32::MAX, first: POLL, max: Duration::from_secs(30) };

/// What the last claims state.
#[derive(Default)]
struct LoopState {
    failures: u32,
    /// Whether there was as much as was asked for: then there may be more.
    more: bool,
    next_due_at: Option<Timestamp>,
}

/// One claim's reply, and the room that was kept for it.
struct ClaimReply {
    claimed: Result<ClaimResult, StoreError>,
    sent_at: Timestamp,
    reserved: SlotReservation,
}

/// Claims whenever there is room and may be work, until state to stop. What is under way then is still
/// handed out: whoever runs it gives it back.
pub(super) async fn run(runner: Arc<Runner>, attempts: TaskTracker) {
    let shared = &runner.shared;
    let mut in_flight = JoinSet::new();
    let mut state = LoopState::default();
    let mut look = true;
    // Woken while a claim was under way, which may have looked before.
    let mut woken = false;
    while !runner.stopping.is_cancelled() {
        if look {
            // Handlers that are ready to return make room first.
            tokio::task::yield_now().await;
            state.next_due_at = None;
            while let Some(reserved) = room(&runner, in_flight.len(), state.more) {
                in_flight.spawn(claim(Arc::clone(&runner), reserved));
            }
        }
        let idle = in_flight.is_empty();
        let poll_at = state.poll_at(shared.clock.now());
        look = tokio::select! {
            biased;
            () = runner.stopping.cancelled() => break,
            Some(reply) = in_flight.join_next() => {
                let more = state.learn(&runner, &attempts, reply);
                more || (std::mem::take(&mut woken) && state.failures == 0)
            }
            // While the store fails, no announcement makes it better.
            () = runner.wake.notified(), if state.failures == 0 && (idle || state.more) => {
                woken = !idle;
                true
            }
            () = shared.clock.sleep_until(poll_at), if idle => true,
        };
    }
    while let Some(reply) = in_flight.join_next().await {
        state.learn(&runner, &attempts, reply);
    }
}

/// Room for one more claim, if there should be one now.
fn room(runner: &Runner, in_flight: usize, more: bool) -> Option<SlotReservation> {
    match in_flight {
        0 => runner.slots.reserve(1, CLAIM_BATCH_MAX),
        1..CLAIMS_MAX if more && runner.slots.are_of_all_queues() => {
            runner.slots.reserve(FURTHER_MIN, CLAIM_BATCH_MAX)
        }
        _ => None,
    }
}

async fn claim(runner: Arc<Runner>, reserved: SlotReservation) -> ClaimReply {
    let shared = &runner.shared;
    let rooms = runner.slots.rooms();
    let want = Claim {
        replica: shared.replica.clone(),
        limit: reserved.limit(),
        lease: runner.settings.lease,
        kinds: reserved.kinds().to_vec(),
        // Deliveries are bounded by their receivers alone.
        limits: if rooms.is_some() { Arc::default() } else { shared.flow() },
        queue_capacity: rooms,
    };
    runner.lease_renewer.claiming();
    // Counted from before the claim was sent: the store's lease ends no earlier.
    let sent_at = shared.clock.now();
    ClaimReply { claimed: shared.store.claim(&want).await, sent_at, reserved }
}

impl LoopState {
    /// Hands out what a claim brought. Whether to look again at once.
    fn learn(
        &mut self,
        runner: &Arc<Runner>,
        attempts: &TaskTracker,
        reply: Result<ClaimReply, JoinError>,
    ) -> bool {
        self.more = false;
        match reply {
            Ok(ClaimReply {
                claimed: Ok(ClaimResult { leases, next_due_at }),
                sent_at,
                reserved,
            }) => {
                self.failures = 0;
                self.more = leases.len() == reserved.limit();
                self.next_due_at = next_due_at;
                for lease in leases {
                    let slot = runner.slots.take(&lease.job.kind, &lease.job.queue);
                    attempts.spawn(Arc::clone(runner).run(lease, sent_at, slot));
                }
            }
            Ok(ClaimReply { claimed: Err(error), .. }) => {
                self.failures += 1;
                runner.shared.record_store_error(&error);
                tracing::warn!(%error, failures = self.failures, "cannot claim jobs");
            }
            Err(error) => {
                self.failures += 1;
                tracing::error!(%error, "a claim ended without an reply");
            }
        }
        runner.lease_renewer.handed_out();
        self.more
    }

    /// When to look even if nobody says that there is something.
    fn poll_at(&self, now: Timestamp) -> Timestamp {
        let failing = self.failures > 0;
        let pause = if failing { FAILING.delay(self.failures, 1.0) } else { POLL };
        let poll_at = now.after(pause);
        self.next_due_at.map_or(poll_at, |due| due.min(poll_at))
    }
}
