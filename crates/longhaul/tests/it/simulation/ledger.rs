//! Ledger of a run, outside of the store: responses to clients, work of handlers, and calls of the store.

use std::sync::Mutex;

use longhaul::{Clock, JobId, Timestamp};

/// Everything that happened, in order.
pub(super) struct Ledger {
    clock: Clock,
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) at: Timestamp,
    /// Name of the engine; each start has another one.
    pub(super) replica: String,
    pub(super) event: Event,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    // Engines.
    Started,
    Killed,
    Stopping,
    /// `faults` counts the slow and the lost calls since the stop began.
    Stopped {
        faults: u64,
    },
    /// The registry of replicas shows the running engine as dead.
    SeenDead,
    Healed,
    // Responses to clients.
    Accepted {
        key: String,
        job: JobId,
    },
    CancelAcknowledged {
        job: JobId,
    },
    Resumed {
        job: JobId,
    },
    Refused {
        call: &'static str,
        error: String,
    },
    // Handlers. `run` numbers the calls of handlers.
    HandlerBegan {
        run: u64,
        job: JobId,
        attempt: u32,
    },
    StepBegan {
        run: u64,
        job: JobId,
        step: String,
    },
    StepEnded {
        run: u64,
        job: JobId,
        step: String,
        end: StepEnd,
    },
    // Calls of the store.
    Committed {
        call: &'static str,
        job: JobId,
    },
    CheckpointCommitted {
        job: JobId,
        epoch: u64,
        step: String,
        output: String,
    },
    /// The lease of a claim that got no response.
    LeaseUnknown {
        job: JobId,
    },
    CallLost {
        call: &'static str,
        fault: &'static str,
    },
    CancellationNotified,
}

/// The end of a step's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepEnd {
    Finished,
    Failed,
    /// Dropped by the engine.
    Dropped,
}

impl Ledger {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, entries: Mutex::default() }
    }

    pub(super) fn record(&self, replica: &str, event: Event) {
        let entry = Entry { at: self.clock.now(), replica: replica.to_owned(), event };
        self.entries.lock().unwrap().push(entry);
    }

    pub(super) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.entries.lock().unwrap())
    }
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.at.since(super::plan::START);
        write!(f, "{:>9.3} {:<6} {:?}", at.as_secs_f64(), self.replica, self.event)
    }
}
