//! Lease renewal and heartbeats, on a dedicated thread, so that handlers that block the runtime
//! cost no lease. In virtual time they are a task instead.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::WorkerSettings;
use super::heartbeat::Heartbeats;
use crate::ctx::Signals;
use crate::engine::EngineState;
use crate::job::{JobId, Timestamp};
use crate::store::{Lease, LeaseRef, Renewal};
use crate::sync::Mutex;

pub(super) struct LeaseRenewer {
    held: Arc<Mutex<Leases>>,
    /// Cancelled when the thread or task has dropped its store handle.
    has_ended: CancellationToken,
}

#[derive(Default)]
struct Leases {
    by_job: BTreeMap<JobId, HeldLease>,
    /// True while renewals fail or are late.
    store_is_away: bool,
    /// Number of the next claim.
    next_claim: u64,
    /// Claims in flight.
    claims: BTreeSet<u64>,
    early_cancellations: BTreeMap<JobId, EarlyCancellation>,
}

/// A cancellation during claims that may have taken the job, but have not registered its lease yet.
struct EarlyCancellation {
    /// Version of the job after the request.
    version: u64,
    /// Number of the first claim that began later and cannot have taken the job before.
    next_claim: u64,
}

struct HeldLease {
    lease: LeaseRef,
    /// Version of the job when it was claimed.
    version: u64,
    /// With the end of the lease, counted from when the renewal was sent.
    signals: Signals,
    /// End of renewal. A handler that never yields cannot be dropped, but must not block its job
    /// for ever.
    give_up_at: Timestamp,
    /// True if the lease ran out because the store was away. `None` until it runs out.
    ran_out_in_outage: Option<bool>,
}

/// Renews a lease until dropped.
pub(super) struct LeaseGuard {
    held: Arc<Mutex<Leases>>,
    lease: LeaseRef,
}

/// A claim whose leases are not registered yet. Dropped when they are.
pub(super) struct ClaimGuard {
    held: Arc<Mutex<Leases>>,
    number: u64,
}

impl LeaseRenewer {
    pub(super) fn start(
        shared: &Arc<EngineState>,
        settings: WorkerSettings,
        heartbeats: Heartbeats,
        ended: CancellationToken,
    ) -> io::Result<Self> {
        let held = Arc::new(Mutex::new(Leases::default()));
        let renew_loop = RenewLoop {
            held: Arc::clone(&held),
            shared: Arc::clone(shared),
            lease: settings.lease,
            renew: settings.renew,
            // Before the thread runs, so that leases are renewed in time even if it starts late.
            first_renewal_at: shared.clock.now().after(settings.renew),
        };
        let has_ended = CancellationToken::new();
        let guard = has_ended.clone().drop_guard();
        let work = async move {
            tokio::select! {
                biased;
                () = ended.cancelled() => {}
                () = renew_loop.run() => {}
                () = heartbeats.run() => {}
            }
            drop((renew_loop, heartbeats));
            drop(guard);
        };
        if shared.clock.is_virtual() {
            tokio::spawn(work);
        } else {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let thread = std::thread::Builder::new().name("longhaul-leases".to_owned());
            thread.spawn(move || runtime.block_on(work))?;
        }
        Ok(Self { held, has_ended })
    }

    /// Waits until the thread or task has dropped its store handle.
    pub(super) async fn ended(&self) {
        self.has_ended.cancelled().await;
    }

    /// Renews `lease` from now on.
    pub(super) fn keep(
        &self,
        lease: &Lease,
        signals: Signals,
        valid_until: Timestamp,
        give_up_at: Timestamp,
    ) -> LeaseGuard {
        let (id, version) = (lease.job.id, lease.job.version);
        let lease = lease.to_ref();
        signals.valid_until.set(valid_until);
        let held = HeldLease {
            lease: lease.clone(),
            version,
            signals,
            give_up_at,
            ran_out_in_outage: None,
        };
        let mut leases = self.held.lock();
        if let Some(cancelled) = leases.early_cancellations.get(&id) {
            held.cancel(cancelled.version);
        }
        if let Some(superseded) = leases.by_job.insert(id, held) {
            // An earlier attempt outlived its lease, for example after the process was paused.
            superseded.signals.lost.cancel();
        }
        drop(leases);
        LeaseGuard { held: Arc::clone(&self.held), lease }
    }

    /// Records that a claim starts, whose leases are not registered yet.
    pub(super) fn claiming(&self) -> ClaimGuard {
        let mut leases = self.held.lock();
        let number = leases.next_claim;
        leases.next_claim += 1;
        leases.claims.insert(number);
        ClaimGuard { held: Arc::clone(&self.held), number }
    }

    /// Signals cancellation to the job's attempt, if it runs here or is being claimed. `version` is that of
    /// the job after the request: a lease that was claimed later belongs to a resumed job.
    pub(super) fn cancel(&self, id: JobId, version: u64) {
        let mut leases = self.held.lock();
        let next_claim = leases.next_claim;
        if let Some(held) = leases.by_job.get(&id) {
            held.cancel(version);
        }
        if !leases.claims.is_empty() {
            leases.early_cancellations.insert(id, EarlyCancellation { version, next_claim });
        }
    }

    /// Returns the leases of attempts that continue.
    pub(super) fn leases(&self) -> Vec<LeaseRef> {
        let leases = self.held.lock();
        let continues = |held: &&HeldLease| {
            !held.signals.cancel.is_cancelled() && !held.signals.lost.is_cancelled()
        };
        leases.by_job.values().filter(continues).map(|held| held.lease.clone()).collect()
    }

    /// Signals cancellation to the attempt with this lease, if it still runs.
    pub(super) fn cancel_attempt(&self, lease: &LeaseRef) {
        let leases = self.held.lock();
        if let Some(held) = leases.by_job.get(&lease.job).filter(|held| held.lease == *lease) {
            held.signals.cancel.cancel();
        }
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        let mut leases = self.held.lock();
        leases.claims.remove(&self.number);
        let oldest = leases.claims.first().copied();
        leases
            .early_cancellations
            .retain(|_, cancelled| oldest.is_some_and(|oldest| oldest < cancelled.next_claim));
    }
}

impl LeaseGuard {
    /// Returns whether the lease ran out because the store was away. If no replica has rescued the job meanwhile, its
    /// attempt can still be settled when the store is back.
    pub(super) fn ran_out_in_outage(&self, now: Timestamp) -> bool {
        let leases = &mut *self.held.lock();
        let held = leases.by_job.get_mut(&self.lease.job).filter(|held| held.lease == self.lease);
        held.and_then(|held| held.check_expiry(now, leases.store_is_away)).unwrap_or(false)
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        let held = &mut self.held.lock().by_job;
        // A later attempt of the same job may already run here.
        if held.get(&self.lease.job).is_some_and(|held| held.lease == self.lease) {
            held.remove(&self.lease.job);
        }
    }
}

struct RenewLoop {
    held: Arc<Mutex<Leases>>,
    shared: Arc<EngineState>,
    lease: Duration,
    renew: Duration,
    first_renewal_at: Timestamp,
}

impl RenewLoop {
    async fn run(&self) {
        let mut renew_at = self.first_renewal_at;
        loop {
            tokio::select! {
                biased;
                () = self.shared.clock.sleep_until(renew_at) => {
                    // A store that hangs must not delay the detection of expired leases.
                    let renewed = tokio::select! {
                        biased;
                        renewed = self.renew() => renewed,
                        () = self.next_expiry() => false,
                        () = self.shared.clock.sleep(self.renew) => {
                            tracing::warn!("lease renewal is late");
                            self.held.lock().store_is_away = true;
                            false
                        }
                    };
                    let pause = if renewed { self.renew } else { self.renew / 5 };
                    renew_at = self.shared.clock.now().after(pause);
                }
                () = self.next_expiry() => {}
            }
            self.drop_expired();
        }
    }

    /// Waits until the first valid lease expires.
    async fn next_expiry(&self) {
        let expires_at = {
            let leases = self.held.lock();
            let valid = leases.by_job.values().filter(|held| !held.signals.lost.is_cancelled());
            valid.map(|held| held.signals.valid_until.get()).min()
        };
        match expires_at {
            Some(at) => self.shared.clock.sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Renews all leases with one call. Returns whether the store did.
    async fn renew(&self) -> bool {
        let sent_at = self.shared.clock.now();
        let leases: Vec<LeaseRef> = self
            .held
            .lock()
            .by_job
            .values()
            // An expired lease is not renewed: its attempt is being dropped, and the job must
            // become claimable.
            .filter(|held| sent_at < held.signals.valid_until.get().min(held.give_up_at))
            .map(|held| held.lease.clone())
            .collect();
        if leases.is_empty() {
            return true;
        }
        match self.shared.store.renew(leases.clone(), self.lease).await {
            Ok(renewals) => {
                self.shared.record_store_success();
                let leases_held = &mut *self.held.lock();
                leases_held.store_is_away = false;
                let held = &leases_held.by_job;
                for (lease, renewal) in leases.iter().zip(renewals) {
                    if let Some(held) = held.get(&lease.job).filter(|held| held.lease == *lease) {
                        held.renewed(renewal, sent_at.after(self.lease));
                    }
                }
                true
            }
            Err(error) => {
                self.shared.record_store_error(&error);
                tracing::warn!(%error, leases = leases.len(), "cannot renew leases");
                self.held.lock().store_is_away |= error.is_transient();
                false
            }
        }
    }

    /// Stops attempts whose leases expired, because another replica may hold the job.
    fn drop_expired(&self) {
        let now = self.shared.clock.now();
        let leases = &mut *self.held.lock();
        for held in leases.by_job.values_mut() {
            let has_run_out = held.check_expiry(now, leases.store_is_away).is_some();
            if has_run_out && !held.signals.lost.is_cancelled() {
                tracing::warn!(job.id = %held.lease.job, "a lease ran out; its attempt is dropped");
                held.signals.lost.cancel();
            }
        }
    }
}

impl HeldLease {
    /// Signals cancellation, unless the lease was claimed after the request, which raised the job to `version`.
    fn cancel(&self, version: u64) {
        if self.version < version {
            self.signals.cancel.cancel();
        }
    }

    /// Returns whether the lease ran out because the store was away; `None` if it has not run out.
    fn check_expiry(&mut self, now: Timestamp, store_is_away: bool) -> Option<bool> {
        if self.ran_out_in_outage.is_none() && self.signals.valid_until.get() <= now {
            // Otherwise renewal ended because the handler did not.
            self.ran_out_in_outage = Some(store_is_away && now < self.give_up_at);
        }
        self.ran_out_in_outage
    }

    fn renewed(&self, renewal: Renewal, valid_until: Timestamp) {
        match renewal {
            Renewal::Kept { cancel_requested } => {
                self.signals.valid_until.set(valid_until);
                if cancel_requested {
                    self.signals.cancel.cancel();
                }
            }
            Renewal::Lost => self.signals.lost.cancel(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancellation_is_remembered_only_for_the_claims_that_it_met() {
        let held: Arc<Mutex<Leases>> = Arc::default();
        let renewer = LeaseRenewer { held: Arc::clone(&held), has_ended: CancellationToken::new() };
        let remembered = || held.lock().early_cancellations.len();
        let id = |number| JobId::from_parts(Timestamp::from_millis(1), number);
        renewer.cancel(id(0), 3);
        assert_eq!(remembered(), 0);
        let mut claiming = renewer.claiming();
        for number in 0..1_000 {
            renewer.cancel(id(number), 3);
            let next = renewer.claiming();
            assert_eq!(remembered(), 1);
            // Under load there is always a claim in flight.
            claiming = next;
        }
        assert_eq!(remembered(), 0);
        drop(claiming);
    }
}
