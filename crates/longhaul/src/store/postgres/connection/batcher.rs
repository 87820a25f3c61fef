//! Batches of concurrent calls: those that arrive while a statement runs share the next one, without a timer.
//! Writes share its commit, too (group commit).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::store::StoreError;

/// Maximum number of items per statement.
const ITEMS_MAX: usize = 1_000;
/// Maximum size of a statement in bytes, unless a single item is larger.
const BYTES_MAX: usize = 8 * 1024 * 1024;

type ItemResult<O> = Result<O, StoreError>;
type Flushing<O> = Pin<Box<dyn Future<Output = Vec<ItemResult<O>>> + Send>>;
type Flush<I, O> = Box<dyn Fn(Vec<I>) -> Flushing<O> + Send + Sync>;

/// Runs items in batches, with up to `batches_max` in flight.
pub(crate) struct Batcher<I, O>(Arc<BatcherState<I, O>>);

struct BatcherState<I, O> {
    /// A std mutex: locked to move items in and out, never across an await.
    queue: Mutex<Queue<I, O>>,
    flush: Flush<I, O>,
    bytes_of: fn(&I) -> usize,
    batches_max: usize,
    runtime: Handle,
}

struct Queue<I, O> {
    items: VecDeque<(I, oneshot::Sender<ItemResult<O>>)>,
    tasks: usize,
}

impl<I: Send + 'static, O: Send + 'static> Batcher<I, O> {
    /// Creates a batcher. `flush` runs the statement of a batch and returns one result per item.
    pub(crate) fn new<F>(
        runtime: Handle,
        batches_max: usize,
        bytes_of: fn(&I) -> usize,
        flush: impl Fn(Vec<I>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Vec<ItemResult<O>>> + Send + 'static,
    {
        let queue = Mutex::new(Queue { items: VecDeque::new(), tasks: 0 });
        let flush: Flush<I, O> = Box::new(move |items| Box::pin(flush(items)));
        Self(Arc::new(BatcherState { queue, flush, bytes_of, batches_max, runtime }))
    }

    /// Runs items. Returns one result per item.
    pub(crate) async fn run(&self, items: Vec<I>) -> Vec<ItemResult<O>> {
        let mut results = Vec::with_capacity(items.len());
        for receiver in self.enqueue(items) {
            let closed = |_| Err(StoreError::Unavailable("the store was closed".to_owned()));
            results.push(receiver.await.unwrap_or_else(closed));
        }
        results
    }

    fn enqueue(&self, items: Vec<I>) -> Vec<oneshot::Receiver<ItemResult<O>>> {
        let mut receivers = Vec::with_capacity(items.len());
        let mut queue = self.0.lock();
        for item in items {
            let (sender, receiver) = oneshot::channel();
            queue.items.push_back((item, sender));
            receivers.push(receiver);
        }
        if queue.tasks < self.0.batches_max && !queue.items.is_empty() {
            queue.tasks += 1;
            let task = BatchTask(Arc::clone(&self.0));
            // On the store's runtime, so that a cancelled caller does not cancel the batch.
            self.0.runtime.spawn(task.run());
        }
        receivers
    }

    pub(crate) async fn run_one(&self, item: I) -> ItemResult<O> {
        let result = self.run(vec![item]).await.pop();
        result.unwrap_or_else(|| Err(StoreError::Unavailable("no result".to_owned())))
    }
}

/// A task that runs batches. Frees its slot when it ends, however it ends.
struct BatchTask<I, O>(Arc<BatcherState<I, O>>);

impl<I, O> Drop for BatchTask<I, O> {
    fn drop(&mut self) {
        self.0.lock().tasks -= 1;
    }
}

impl<I: Send + 'static, O: Send + 'static> BatchTask<I, O> {
    async fn run(self) {
        loop {
            // Let callers that are ready to run add their items first.
            tokio::task::yield_now().await;
            let (items, senders) = self.0.take();
            if items.is_empty() {
                return;
            }
            let mut results = (self.0.flush)(items).await.into_iter();
            for sender in senders {
                let none = || Err(StoreError::Unavailable("a batch lost a result".to_owned()));
                // The caller may have stopped waiting.
                drop(sender.send(results.next().unwrap_or_else(none)));
            }
        }
    }
}

impl<I, O> BatcherState<I, O> {
    /// Removes the next batch from the queue.
    fn take(&self) -> (Vec<I>, Vec<oneshot::Sender<ItemResult<O>>>) {
        let mut queue = self.lock();
        let (mut items, mut senders, mut bytes) = (Vec::new(), Vec::new(), 0);
        while items.len() < ITEMS_MAX
            && let Some((item, _)) = queue.items.front()
        {
            bytes += (self.bytes_of)(item);
            if bytes > BYTES_MAX && !items.is_empty() {
                break;
            }
            let Some((item, sender)) = queue.items.pop_front() else { break };
            items.push(item);
            senders.push(sender);
        }
        (items, senders)
    }

    fn lock(&self) -> MutexGuard<'_, Queue<I, O>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
