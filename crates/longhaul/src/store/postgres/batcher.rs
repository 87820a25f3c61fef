//! Groups concurrent writes: what is queued while the last statement runs goes into the next one, with no
//! timer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::store::StoreError;

/// The most that one statement takes.
const ITEMS_MAX: usize = 1_000;
/// The most bytes that one statement takes, unless a single item has more.
const BYTES_MAX: usize = 8 * 1024 * 1024;

type Answer<O> = Result<O, StoreError>;
type Flushing<O> = Pin<Box<dyn Future<Output = Vec<Answer<O>>> + Send>>;
type Flush<I, O> = Box<dyn Fn(Vec<I>) -> Flushing<O> + Send + Sync>;

/// Writes items in batches, with a few batches under way at once.
pub(super) struct Batcher<I, O>(Arc<Shared<I, O>>);

struct Shared<I, O> {
    /// A std mutex: held to move items in and out, never across an await.
    queue: Mutex<Queue<I, O>>,
    flush: Flush<I, O>,
    bytes_of: fn(&I) -> usize,
    writers_max: usize,
    runtime: Handle,
}

struct Queue<I, O> {
    items: VecDeque<(I, oneshot::Sender<Answer<O>>)>,
    writers: usize,
}

impl<I: Send + 'static, O: Send + 'static> Batcher<I, O> {
    /// Batches of items whose sizes `bytes_of` tells go through `flush`, which answers each item.
    pub(super) fn new<F>(
        runtime: Handle,
        writers_max: usize,
        bytes_of: fn(&I) -> usize,
        flush: impl Fn(Vec<I>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Vec<Answer<O>>> + Send + 'static,
    {
        let queue = Mutex::new(Queue { items: VecDeque::new(), writers: 0 });
        let flush: Flush<I, O> = Box::new(move |items| Box::pin(flush(items)));
        Self(Arc::new(Shared { queue, flush, bytes_of, writers_max, runtime }))
    }

    /// Writes items, each answered on its own.
    pub(super) async fn write(&self, items: Vec<I>) -> Vec<Answer<O>> {
        let mut answers = Vec::with_capacity(items.len());
        for receiver in self.enqueue(items) {
            let gone = |_| Err(StoreError::Unavailable("the store was closed".to_owned()));
            answers.push(receiver.await.unwrap_or_else(gone));
        }
        answers
    }

    fn enqueue(&self, items: Vec<I>) -> Vec<oneshot::Receiver<Answer<O>>> {
        let mut receivers = Vec::with_capacity(items.len());
        let mut queue = self.0.lock();
        for item in items {
            let (sender, receiver) = oneshot::channel();
            queue.items.push_back((item, sender));
            receivers.push(receiver);
        }
        if queue.writers < self.0.writers_max && !queue.items.is_empty() {
            queue.writers += 1;
            let writer = Writer(Arc::clone(&self.0));
            // On the store's own runtime: a caller that goes away does not take the others' batch along.
            self.0.runtime.spawn(writer.write_on());
        }
        receivers
    }

    /// Writes one item.
    pub(super) async fn write_one(&self, item: I) -> Answer<O> {
        let answer = self.write(vec![item]).await.pop();
        answer.unwrap_or_else(|| Err(StoreError::Unavailable("no answer".to_owned())))
    }
}

/// One of the batches under way; makes room for another when it ends, however it ends.
struct Writer<I, O>(Arc<Shared<I, O>>);

impl<I, O> Drop for Writer<I, O> {
    fn drop(&mut self) {
        self.0.lock().writers -= 1;
    }
}

impl<I: Send + 'static, O: Send + 'static> Writer<I, O> {
    async fn write_on(self) {
        loop {
            // Callers that are ready to run get their items in first.
            tokio::task::yield_now().await;
            let (items, senders) = self.0.take();
            if items.is_empty() {
                return;
            }
            let mut answers = (self.0.flush)(items).await.into_iter();
            for sender in senders {
                let none = || Err(StoreError::Unavailable("a batch lost an answer".to_owned()));
                // Whoever asked may have gone.
                drop(sender.send(answers.next().unwrap_or_else(none)));
            }
        }
    }
}

impl<I, O> Shared<I, O> {
    /// The next batch.
    fn take(&self) -> (Vec<I>, Vec<oneshot::Sender<Answer<O>>>) {
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
