//! Watching one job, without gaps.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _};

use super::Engine;
use super::watchers::WatchSubscription;
use crate::job::{JobId, Record};
use crate::store::StoreError;

/// Interval between a watcher's reads once its engine has stopped, and with it the change poller.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// A stream of a job's transitions: each once and in order, up to the terminal one.
///
/// Progress reports are coalesced to the latest. An error ends the stream.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use futures_util::StreamExt as _;
/// # use longhaul::{Ctx, Engine};
/// # let engine = Engine::builder().kind("work", |_: Ctx, (): ()| async { Ok(1) }).start().await?;
/// let job = engine.submit_raw("work", &()).await?;
/// let mut watcher = job.watch();
/// while let Some(record) = watcher.next().await {
///     println!("{}", record?.job.status);
/// }
/// # engine.stop().await; Ok(()) }
/// ```
pub struct Watcher(BoxStream<'static, Result<Record, StoreError>>);

struct WatchState {
    engine: Engine,
    id: JobId,
    subscription: WatchSubscription,
    /// The last version that was yielded; `None` before the first.
    seen: Option<u64>,
    buffered: VecDeque<Record>,
    ended: bool,
}

impl Engine {
    /// Watches a job: its current state first, then every transition.
    ///
    /// With `since`, a version that the caller has seen, the stream starts after that version
    /// instead and includes the transitions that happened in the meantime.
    pub fn watch(&self, id: JobId, since: Option<u64>) -> Watcher {
        let subscription = self.shared.watchers.subscribe(&self.tenant, id);
        let state = WatchState {
            engine: self.clone(),
            id,
            subscription,
            seen: since,
            buffered: VecDeque::new(),
            ended: false,
        };
        let next = async |mut state: WatchState| state.next().await.map(|item| (item, state));
        Watcher(stream::unfold(state, next).boxed())
    }

    /// Waits for a notification. Nothing but the change poller polls for it, so that an idle watcher costs nothing, until
    /// the engine stops.
    pub(super) async fn wait_or_poll(&self, notification: impl Future<Output = ()>) {
        let poll = async {
            self.workers.ended().await;
            Box::pin(self.shared.clock.sleep(POLL_INTERVAL)).await;
        };
        tokio::select! {
            () = notification => {}
            () = poll => {}
        }
    }
}

impl Watcher {
    /// Returns the next state of the job; `None` after the terminal one. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Record, StoreError>> {
        self.0.next().await
    }
}

impl Stream for Watcher {
    type Item = Result<Record, StoreError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

impl WatchState {
    async fn next(&mut self) -> Option<Result<Record, StoreError>> {
        loop {
            if let Some(record) = self.buffered.pop_front() {
                self.seen = Some(record.job.version);
                // A terminal transition that a resume has undone does not end the stream.
                self.ended = record.job.status.is_terminal() && self.buffered.is_empty();
                return Some(Ok(record));
            }
            if self.ended {
                return None;
            }
            // A watcher waits most of the time: then it holds neither the future of a read nor an empty buffer.
            self.buffered = VecDeque::new();
            let read = Box::pin(self.read()).await;
            match read {
                Ok(true) => {}
                Ok(false) => self.engine.wait_or_poll(self.subscription.changed()).await,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Reads the job and buffers its new transitions. Returns false if nothing has changed.
    async fn read(&mut self) -> Result<bool, StoreError> {
        let record = self.engine.job(self.id).await?;
        match self.seen {
            None => self.buffered.push_back(record),
            Some(seen) if record.job.version > seen => self.buffered.extend(record.since(seen)),
            Some(_) if record.job.status.is_terminal() => self.ended = true,
            Some(_) => return Ok(false),
        }
        Ok(true)
    }
}
