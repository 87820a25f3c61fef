//! Workers: claim and run jobs, renew leases, and run background maintenance.

mod attempt;
#[cfg(feature = "blobs")]
mod blob_gc;
mod cancellation_poller;
mod claim_loop;
mod hand_off;
pub(crate) mod heartbeat;
mod lease_renewer;
mod maintenance;
mod output_flusher;
mod process;
mod progress;
mod rescue;
mod slots;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use hand_off::HandOff;
pub(crate) use progress::ProgressReporter;

use crate::engine::{EngineState, change_poller, output_poller};
use crate::job::JobId;
use attempt::Runner;
use heartbeat::Heartbeats;
use lease_renewer::LeaseRenewer;
use slots::Slots;

/// Maximum time that a stop waits for the store or for a handler that ignores its release.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerSettings {
    pub(crate) concurrency: usize,
    pub(crate) lease: Duration,
    pub(crate) renew: Duration,
    pub(crate) rescue_interval: Duration,
    pub(crate) after_outage: bool,
    pub(crate) cancel_grace: Duration,
    pub(crate) stop_grace: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            concurrency: 4,
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(5),
            rescue_interval: Duration::from_secs(2),
            after_outage: false,
            cancel_grace: Duration::from_secs(5),
            stop_grace: Duration::from_secs(20),
        }
    }
}

pub(crate) struct Workers {
    shared: Arc<EngineState>,
    settings: WorkerSettings,
    slots: Arc<Slots>,
    /// `None` if this process runs no jobs.
    hand_off: Option<HandOff>,
    lease_renewer: Arc<LeaseRenewer>,
    heartbeats: Heartbeats,
    /// Claim nothing more, start no further step.
    stopping: CancellationToken,
    /// Release running attempts.
    release: CancellationToken,
    /// End all other tasks.
    ended: CancellationToken,
    claiming: TaskTracker,
    attempts: TaskTracker,
    loops: TaskTracker,
}

impl Workers {
    pub(crate) fn start(shared: &Arc<EngineState>, settings: WorkerSettings) -> io::Result<Self> {
        let (ended, attempts) = (CancellationToken::new(), TaskTracker::new());
        let slots = Arc::new(Slots::new(settings.concurrency, shared.kinds.values()));
        let heartbeats = Heartbeats::new(shared, &slots, settings.concurrency);
        let mut workers = Self {
            shared: Arc::clone(shared),
            settings,
            slots,
            hand_off: None,
            lease_renewer: Arc::new(LeaseRenewer::start(
                shared,
                settings,
                heartbeats.clone(),
                ended.clone(),
            )?),
            heartbeats,
            stopping: CancellationToken::new(),
            release: CancellationToken::new(),
            ended: ended.clone(),
            claiming: TaskTracker::new(),
            attempts,
            loops: TaskTracker::new(),
        };
        let reports = ProgressReporter::start(shared, &workers.loops, ended.clone());
        maintenance::start(shared, settings, &workers.loops, &ended);
        #[cfg(feature = "blobs")]
        blob_gc::start(shared, &workers.loops, &ended);
        change_poller::start(shared, &workers.loops, &ended);
        output_poller::start(shared, &workers.loops, &ended);
        output_flusher::start(shared, &workers.loops, &ended);
        cancellation_poller::start(shared, &workers.lease_renewer, &workers.loops, &ended);
        if settings.concurrency > 0 && shared.kinds.values().any(|kind| kind.runs_here()) {
            let runner = workers.claim_with(&reports, &workers.slots, &shared.wake);
            let (claiming, attempts) = (workers.claiming.clone(), workers.attempts.clone());
            workers.hand_off = Some(HandOff { runner, claiming, attempts });
        }
        // Deliveries have separate slots and claims, so that receivers that hang cannot delay jobs.
        if let Some(delivery_worker) =
            shared.delivery_worker.as_ref().filter(|_| settings.concurrency > 0)
        {
            let slots = Arc::new(Slots::for_deliveries(delivery_worker));
            workers.claim_with(&reports, &slots, &shared.wake_deliveries);
        }
        for tasks in [&workers.claiming, &workers.attempts, &workers.loops] {
            tasks.close();
        }
        Ok(workers)
    }

    /// Starts a claim loop and returns its runner.
    fn claim_with(
        &self,
        reports: &Arc<ProgressReporter>,
        slots: &Arc<Slots>,
        wake: &Arc<Notify>,
    ) -> Arc<Runner> {
        let runner = Arc::new(Runner {
            shared: Arc::clone(&self.shared),
            settings: self.settings,
            reports: Arc::clone(reports),
            lease_renewer: Arc::clone(&self.lease_renewer),
            slots: Arc::clone(slots),
            wake: Arc::clone(wake),
            stopping: self.stopping.clone(),
            release: self.release.clone(),
        });
        self.claiming.spawn(claim_loop::run(Arc::clone(&runner), self.attempts.clone()));
        runner
    }

    /// Returns what starts jobs in this process, if it runs any.
    pub(crate) fn hand_off(&self) -> Option<&HandOff> {
        self.hand_off.as_ref()
    }

    pub(crate) fn running(&self) -> usize {
        self.slots.running()
    }

    /// Waits until the background loops end.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(crate) fn concurrency(&self) -> usize {
        self.settings.concurrency
    }

    /// Signals cancellation to the job's attempt, if it runs here, instead of waiting for its next
    /// checkpoint or lease renewal. `version` is that of the job after the request.
    pub(crate) fn cancel(&self, id: JobId, version: u64) {
        self.lease_renewer.cancel(id, version);
    }

    /// Waits with a timeout. Leases of attempts that are left expire.
    async fn with_stop_timeout(&self, wait: impl Future<Output = ()>, on_timeout: &str) {
        tokio::select! {
            biased;
            () = wait => {}
            () = self.shared.clock.sleep(STOP_TIMEOUT) => tracing::error!("stop: {on_timeout}"),
        }
    }

    pub(crate) async fn stop(&self) {
        self.stopping.cancel();
        // A running claim may still return leases: they are released at once.
        self.with_stop_timeout(self.claiming.wait(), "a claim did not return in time").await;
        let grace = self.shared.clock.sleep(self.settings.stop_grace);
        tokio::select! {
            biased;
            () = self.attempts.wait() => {}
            () = grace => {
                self.release.cancel();
                self.with_stop_timeout(self.attempts.wait(), "handlers did not release their threads in time").await;
            }
        }
        self.ended.cancel();
        self.loops.wait().await;
        self.lease_renewer.ended().await;
        self.with_stop_timeout(
            self.heartbeats.deregister(),
            "the replica could not be deregistered in time",
        )
        .await;
    }
}

impl Drop for Workers {
    /// Releases jobs of an engine that is dropped without [`Workers::stop`].
    fn drop(&mut self) {
        self.stopping.cancel();
        self.release.cancel();
        self.ended.cancel();
    }
}
