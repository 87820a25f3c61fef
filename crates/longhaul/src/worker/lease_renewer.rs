//! Keeps the leases of this replica and its place among the living, on a thread of its own: handlers
//! that hog the runtime must not cost anybody a lease.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::WorkerSettings;
use super::heartbeat::Heartbeats;
use crate::clock::Clock;
use crate::ctx::Signals;
use crate::engine::Shared;
use crate::job::{JobId, Timestamp};
use crate::store::{LeaseRef, Renewal};

/// The leases that this replica holds.
pub(super) struct LeaseRenewer {
    /// A std mutex: held for map accesses, never across an await.
    held: Arc<Mutex<Leases>>,
    /// Set once the thread has let go of the store.
    thread_ended: CancellationToken,
}

#[derive(Default)]
struct Leases {
    by_job: HashMap<JobId, HeldLease>,
    /// How many claims are under way.
    claims: usize,
    /// Jobs that were asked to stop while a claim, which may have taken them before, was under way.
    cancelled_meanwhile: HashSet<JobId>,
}

struct HeldLease {
    lease: LeaseRef,
    signals: Signals,
    /// We believe in the lease until then: counted from when its renewal was sent.
    valid_until: Timestamp,
    /// No renewal after this: a handler that never yields cannot be dropped, but must not keep the
    /// job from others either.
    give_up_at: Timestamp,
}

/// A lease that is kept until this is dropped.
pub(super) struct LeaseGuard {
    held: Arc<Mutex<Leases>>,
    lease: LeaseRef,
}

impl LeaseRenewer {
    pub(super) fn start(
        shared: &Arc<Shared>,
        settings: WorkerSettings,
        heartbeats: Heartbeats,
        ended: CancellationToken,
    ) -> io::Result<Self> {
        let held = Arc::new(Mutex::new(Leases::default()));
        let renew_loop = RenewLoop {
            held: Arc::clone(&held),
            shared: Arc::clone(shared),
            clock: shared.clock.clone(),
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

    /// Returns once the thread, told to end, has let go of the store.
    pub(super) async fn ended(&self) {
        self.thread_ended.cancelled().await;
    }

    /// Keeps `lease` from now on.
    pub(super) fn keep(
        &self,
        lease: LeaseRef,
        signals: Signals,
        valid_until: Timestamp,
        give_up_at: Timestamp,
    ) -> LeaseGuard {
        let mut leases = lock(&self.held);
        if leases.cancelled_meanwhile.contains(&lease.job) {
            signals.cancel.cancel();
        }
        let held = HeldLease { lease: lease.clone(), signals, valid_until, give_up_at };
        if let Some(superseded) = leases.by_job.insert(lease.job, held) {
            // An earlier attempt that slept through its lease, as after a pause of the process.
            superseded.signals.lost.cancel();
        }
        drop(leases);
        LeaseGuard { held: Arc::clone(&self.held), lease }
    }

    /// A claim begins; what it brings is not held yet.
    pub(super) fn claiming(&self) {
        lock(&self.held).claims += 1;
    }

    /// What the claim brought is held.
    pub(super) fn handed_out(&self) {
        let mut leases = lock(&self.held);
        leases.claims = leases.claims.saturating_sub(1);
        if leases.claims == 0 {
            leases.cancelled_meanwhile.clear();
        }
    }

    /// Tells the attempt of this job, if it runs here or is about to, to stop.
    pub(super) fn cancel(&self, id: JobId) {
        let mut leases = lock(&self.held);
        if let Some(held) = leases.by_job.get(&id) {
            held.signals.cancel.cancel();
        } else if leases.claims > 0 {
            leases.cancelled_meanwhile.insert(id);
        }
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        let held = &mut lock(&self.held).by_job;
        // A later attempt of the same job may already run here.
        if held.get(&self.lease.job).is_some_and(|held| held.lease == self.lease) {
            held.remove(&self.lease.job);
        }
    }
}

fn lock(held: &Mutex<Leases>) -> MutexGuard<'_, Leases> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

struct RenewLoop {
    held: Arc<Mutex<Leases>>,
    shared: Arc<Shared>,
    clock: Clock,
    lease: Duration,
    renew: Duration,
}

impl RenewLoop {
    async fn run(&self) {
        let mut renew_at = self.clock.now().after(self.renew);
        loop {
            tokio::select! {
                () = self.clock.sleep_until(renew_at) => {
                    // A store that hangs must not keep us from noticing that leases run out.
                    let renewed = tokio::select! {
                        renewed = self.renew() => renewed,
                        () = self.next_expiry() => false,
                        () = self.clock.sleep(self.renew) => {
                            tracing::warn!("renewing leases takes longer than it may");
                            false
                        }
                    };
                    let pause = if renewed { self.renew } else { self.renew / 5 };
                    renew_at = self.clock.now().after(pause);
                }
                () = self.next_expiry() => {}
            }
            self.drop_expired();
        }
    }

    /// Returns when the first lease that we still believe in runs out.
    async fn next_expiry(&self) {
        let expires_at = lock(&self.held).by_job.values().filter_map(HeldLease::expires_at).min();
        match expires_at {
            Some(at) => self.clock.sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Renews all leases. False if the store did not.
    async fn renew(&self) -> bool {
        let sent_at = self.clock.now();
        let leases: Vec<LeaseRef> = lock(&self.held)
            .by_job
            .values()
            // One that has run out is not ours to renew: its attempt is dropped, and the job would
            // wait for nobody.
            .filter(|held| sent_at < held.valid_until.min(held.give_up_at))
            .map(|held| held.lease.clone())
            .collect();
        if leases.is_empty() {
            return true;
        }
        match self.shared.store.renew(leases.clone(), self.lease).await {
            Ok(renewals) => {
                let held = &mut lock(&self.held).by_job;
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

    /// Stops attempts whose leases ran out: by now somebody else may hold the job.
    fn drop_expired(&self) {
        let now = self.clock.now();
        for held in lock(&self.held).by_job.values().filter(|held| held.valid_until <= now) {
            if !held.signals.lost.is_cancelled() {
                tracing::warn!(job.id = %held.lease.job, "a lease ran out; its attempt is dropped");
                held.signals.lost.cancel();
            }
        }
    }
}

impl HeldLease {
    /// When the attempt must stop; none once it was told to.
    fn expires_at(&self) -> Option<Timestamp> {
        (!self.signals.lost.is_cancelled()).then_some(self.valid_until)
    }

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
