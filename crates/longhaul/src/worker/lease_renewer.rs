//! Lease renewal and heartbeats, on a dedicated thread, so that handlers that block the runtime
//! cost no lease.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::WorkerSettings;
use super::heartbeat::Heartbeats;
use crate::ctx::Signals;
use crate::engine::EngineState;
use crate::job::{JobId, Timestamp};
use crate::store::{LeaseRef, Renewal};
use crate::sync::Mutex;

pub(super) struct LeaseRenewer {
    held: Arc<Mutex<Leases>>,
    /// Cancelled when the thread has dropped its store handle.
    thread_ended: CancellationToken,
}

#[derive(Default)]
struct Leases {
    by_job: HashMap<JobId, HeldLease>,
    claims: usize,
    /// Jobs cancelled during a claim that may already have taken them.
    cancelled_meanwhile: HashSet<JobId>,
}

struct HeldLease {
    lease: LeaseRef,
    signals: Signals,
    /// End of the lease as this replica sees it, counted from when the renewal was sent.
    valid_until: Timestamp,
    /// End of renewal. A handler that never yields cannot be dropped, but must not block its job
    /// for ever.
    give_up_at: Timestamp,
}

/// Renews a lease until dropped.
pub(super) struct LeaseGuard {
    held: Arc<Mutex<Leases>>,
    lease: LeaseRef,
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
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread_ended = CancellationToken::new();
        let guard = thread_ended.clone().drop_guard();
        std::thread::Builder::new().name("longhaul-leases".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = renew_loop.run() => {}
                    () = heartbeats.run() => {}
                    () = ended.cancelled() => {}
                }
            });
            drop((renew_loop, heartbeats));
            drop(guard);
        })?;
        Ok(Self { held, thread_ended })
    }

    /// Waits until the thread has dropped its store handle.
    pub(super) async fn ended(&self) {
        self.thread_ended.cancelled().await;
    }

    /// Renews `lease` from now on.
    pub(super) fn keep(
        &self,
        lease: LeaseRef,
        signals: Signals,
        valid_until: Timestamp,
        give_up_at: Timestamp,
    ) -> LeaseGuard {
        let mut leases = self.held.lock();
        if leases.cancelled_meanwhile.contains(&lease.job) {
            signals.cancel.cancel();
        }
        let held = HeldLease { lease: lease.clone(), signals, valid_until, give_up_at };
        if let Some(superseded) = leases.by_job.insert(lease.job, held) {
            // An earlier attempt outlived its lease, for example after the process was paused.
            superseded.signals.lost.cancel();
        }
        drop(leases);
        LeaseGuard { held: Arc::clone(&self.held), lease }
    }

    /// Records that a claim starts, whose leases are not registered yet.
    pub(super) fn claiming(&self) {
        self.held.lock().claims += 1;
    }

    /// Records that the leases of a claim are registered.
    pub(super) fn handed_out(&self) {
        let mut leases = self.held.lock();
        leases.claims = leases.claims.saturating_sub(1);
        if leases.claims == 0 {
            leases.cancelled_meanwhile.clear();
        }
    }

    /// Signals cancellation to the job's attempt, if it runs here or is being claimed.
    pub(super) fn cancel(&self, id: JobId) {
        let mut leases = self.held.lock();
        if let Some(held) = leases.by_job.get(&id) {
            held.signals.cancel.cancel();
        } else if leases.claims > 0 {
            leases.cancelled_meanwhile.insert(id);
        }
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
}

impl RenewLoop {
    async fn run(&self) {
        let mut renew_at = self.shared.clock.now().after(self.renew);
        loop {
            tokio::select! {
                () = self.shared.clock.sleep_until(renew_at) => {
                    // A store that hangs must not delay the detection of expired leases.
                    let renewed = tokio::select! {
                        renewed = self.renew() => renewed,
                        () = self.next_expiry() => false,
                        () = self.shared.clock.sleep(self.renew) => {
                            tracing::warn!("lease renewal is late");
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
            valid.map(|held| held.valid_until).min()
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
            .filter(|held| sent_at < held.valid_until.min(held.give_up_at))
            .map(|held| held.lease.clone())
            .collect();
        if leases.is_empty() {
            return true;
        }
        match self.shared.store.renew(leases.clone(), self.lease).await {
            Ok(renewals) => {
                let held = &mut self.held.lock().by_job;
                for (lease, renewal) in leases.iter().zip(renewals) {
                    if let Some(held) = held.get_mut(&lease.job).filter(|held| held.lease == *lease)
                    {
                        held.renewed(renewal, sent_at.after(self.lease));
                    }
                }
                true
            }
            Err(error) => {
                self.shared.record_store_error(&error);
                tracing::warn!(%error, leases = leases.len(), "cannot renew leases");
                false
            }
        }
    }

    /// Stops attempts whose leases expired, because another replica may hold the job.
    fn drop_expired(&self) {
        let now = self.shared.clock.now();
        for held in self.held.lock().by_job.values().filter(|held| held.valid_until <= now) {
            if !held.signals.lost.is_cancelled() {
                tracing::warn!(job.id = %held.lease.job, "a lease ran out; its attempt is dropped");
                held.signals.lost.cancel();
            }
        }
    }
}

impl HeldLease {
    fn renewed(&mut self, renewal: Renewal, valid_until: Timestamp) {
        match renewal {
            Renewal::Kept { cancel_requested } => {
                self.valid_until = valid_until;
                if cancel_requested {
                    self.signals.cancel.cancel();
                }
            }
            Renewal::Lost => self.signals.lost.cancel(),
        }
    }
}
