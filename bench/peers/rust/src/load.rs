//! A job's input, and the signal that its handler ran.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(Clone, Serialize, Deserialize)]
pub struct Load {
    submitted_ns: u64,
    filler: String,
}

static BEGAN: OnceLock<Instant> = OnceLock::new();
static RAN: OnceLock<mpsc::UnboundedSender<Duration>> = OnceLock::new();

impl Load {
    /// Creates an input; the pickup time counts from here.
    pub fn new(filler: &str) -> Self {
        Self { submitted_ns: now_ns(), filler: filler.to_owned() }
    }
}

/// The first line of each handler.
pub fn ran(load: &Load) {
    if let Some(ran) = RAN.get() {
        // The receiver is gone only after the scenario.
        let _ = ran.send(Duration::from_nanos(now_ns().saturating_sub(load.submitted_ns)));
    }
}

/// Pickup times of jobs, as they start. Callable once per process.
pub fn runs() -> mpsc::UnboundedReceiver<Duration> {
    let (sender, receiver) = mpsc::unbounded_channel();
    RAN.set(sender).expect("one scenario in a process");
    receiver
}

fn now_ns() -> u64 {
    u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_nanos()).expect("centuries")
}
