//! Claim loop: keeps the slots of this replica filled.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio_util::task::TaskTracker;

use super::attempt::Runner;
use super::lease_renewer::ClaimGuard;
use super::slots::SlotReservation;
use crate::engine::EngineState;
use crate::job::Timestamp;
use crate::store::{Claim, ClaimResult, StoreError};

/// Maximum of jobs per claim: large enough to fill a replica in a few calls, small enough to leave
/// the store to other replicas in between.
const CLAIM_BATCH_MAX: usize = 256;
/// Maximum of concurrent claims while the queue has more than one of them can take: one waits for
/// its sync while the other reads.
const CLAIMS_MAX: usize = 2;
/// Minimum size of a second concurrent claim, because small claims cost the store more than they
/// gain.
const SECOND_CLAIM_MIN: usize = 64;
/// Interval between claims without a wake-up.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
struct LoopState {
    failures: u32,
    /// True if the last claim was full, so that more jobs may be due.
    more: bool,
    /// Time of the last claim, until the store was asked which job is due next.
    look_after: Option<Timestamp>,
    next_due_at: Option<Timestamp>,
}

/// The result of one claim, with the slots that were reserved for it.
struct ClaimReply {
    claimed: Result<ClaimResult, StoreError>,
    sent_at: Timestamp,
    reserved: SlotReservation,
    claiming: ClaimGuard,
}

/// Claims whenever slots are free and jobs may be due, until the replica stops. Leases of claims
/// that are still running then are passed on to their attempts, which release them.
pub(super) async fn run(runner: Arc<Runner>, attempts: TaskTracker) {
    let shared = &runner.shared;
    let mut in_flight = JoinSet::new();
    let mut state = LoopState::default();
    let mut claim_now = true;
    // A wake-up that arrives during a claim must cause another claim, because the running one may
    // already have read the queue.
    let mut woken = false;
    while !runner.stopping.is_cancelled() {
        if claim_now {
            // Lets handlers that are ready return first, which frees their slots.
            tokio::task::yield_now().await;
            (state.look_after, state.next_due_at) = (None, None);
            while let Some(reserved) = reserve_slots(&runner, in_flight.len(), state.more) {
                in_flight.spawn(claim(Arc::clone(&runner), reserved));
            }
        }
        let idle = in_flight.is_empty();
        claim_now = tokio::select! {
            biased;
            () = runner.stopping.cancelled() => break,
            Some(reply) = in_flight.join_next() => {
                let more = state.handle_reply(&runner, &attempts, reply);
                runner.slots.set_awaited(runner.slots.are_awaited() || !in_flight.is_empty());
                more || (std::mem::take(&mut woken) && state.failures == 0)
            }
            // A wake-up does not shorten the backoff, but the first success of another call does.
            () = runner.wake.notified(), if state.failures == 0 && (idle || state.more) => {
                woken = !idle;
                true
            }
            // Only now, because the jobs that the claim took should start first.
            next_due_at = next_due_at(&runner, state.look_after), if idle && state.look_after.is_some() => {
                state.look_after = None;
                state.next_due_at = state.next_due_at.into_iter().chain(next_due_at).min();
                false
            }
            () = state.poll_is_due(shared), if idle => true,
        };
    }
    while let Some(reply) = in_flight.join_next().await {
        state.handle_reply(&runner, &attempts, reply);
    }
}

/// Reserves slots for one more claim, if there should be one.
fn reserve_slots(runner: &Runner, in_flight: usize, more: bool) -> Option<SlotReservation> {
    runner.slots.set_awaited(true);
    match in_flight {
        0 => runner.slots.reserve(1, CLAIM_BATCH_MAX),
        1..CLAIMS_MAX if more && runner.slots.allow_concurrent_claims() => {
            runner.slots.reserve(SECOND_CLAIM_MIN, CLAIM_BATCH_MAX)
        }
        _ => None,
    }
}

/// Returns when the next job is due. An error is left to the next claim.
async fn next_due_at(runner: &Runner, since: Option<Timestamp>) -> Option<Timestamp> {
    runner.shared.store.next_due_at(since?).await.ok().flatten()
}

/// Returns the request to fill the reserved slots.
pub(super) fn request(runner: &Runner, reserved: &SlotReservation) -> Claim {
    let queue_capacity = runner.slots.queue_capacity();
    Claim {
        replica: runner.shared.replica.clone(),
        limit: reserved.limit,
        lease: runner.settings.lease,
        kinds: reserved.kinds.clone(),
        // Deliveries are limited by their windows only.
        limits: if queue_capacity.is_some() { Arc::default() } else { runner.shared.flow() },
        queue_capacity,
    }
}

async fn claim(runner: Arc<Runner>, reserved: SlotReservation) -> ClaimReply {
    let shared = &runner.shared;
    let want = request(&runner, &reserved);
    let claiming = runner.lease_renewer.claiming();
    // Measured before the claim is sent, so that the lease in the store does not end earlier.
    let sent_at = shared.clock.now();
    ClaimReply { claimed: shared.store.claim(&want).await, sent_at, reserved, claiming }
}

impl LoopState {
    /// Starts the attempts of a claim's leases. Returns whether to claim again at once.
    fn handle_reply(
        &mut self,
        runner: &Arc<Runner>,
        attempts: &TaskTracker,
        reply: Result<ClaimReply, JoinError>,
    ) -> bool {
        self.more = false;
        match reply {
            Ok(ClaimReply {
                claimed: Ok(ClaimResult { leases, limited_until }),
                sent_at,
                reserved,
                claiming,
            }) => {
                self.failures = 0;
                runner.shared.record_store_success();
                self.more = leases.len() == reserved.limit;
                self.look_after = (!self.more).then_some(sent_at);
                self.next_due_at = limited_until;
                let has_limits = !runner.shared.flow().is_empty();
                runner.slots.set_awaited(has_limits || !reserved.has_room_beside(&leases));
                for lease in leases {
                    let slot = runner.slots.take(&lease.job.kind, &lease.job.queue);
                    attempts.spawn(Arc::clone(runner).run(lease, sent_at, slot));
                }
                drop(claiming);
            }
            Ok(ClaimReply { claimed: Err(error), .. }) => {
                self.failures += 1;
                runner.shared.record_store_error(&error);
                tracing::warn!(%error, failures = self.failures, "cannot claim jobs");
            }
            Err(error) => {
                self.failures += 1;
                tracing::error!(%error, "a claim ended without a reply");
            }
        }
        self.more
    }

    /// Waits for the next claim without a wake-up.
    async fn poll_is_due(&self, shared: &EngineState) {
        if self.failures > 0 {
            return shared.back_off(self.failures).await;
        }
        let poll_at = shared.clock.now().after(POLL_INTERVAL);
        let poll_at = self.next_due_at.map_or(poll_at, |due| due.min(poll_at));
        shared.clock.sleep_until(poll_at).await;
    }
}
