//! The newest chunks of one output stream.

use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a log, for readers that are slower than the attempt.
pub(super) const LOG_BYTES_MAX: usize = 1024 * 1024;
/// Bytes after which a part of the unflushed chunks is full.
const PART_BYTES: usize = 64 * 1024;

/// The newest chunks of one output stream. Chunks are numbered from 0 for each attempt.
#[derive(Default)]
pub(super) struct OutputLog {
    /// Epoch of the attempt that wrote the chunks; 0 before the first one.
    epoch: u64,
    first: u64,
    chunks: VecDeque<Arc<str>>,
    bytes: usize,
    /// Number of the first chunk that is not flushed.
    unflushed: u64,
    /// Number of the first chunk that is not reported as dropped.
    untrimmed: u64,
}

impl OutputLog {
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of the first chunk in the log.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the next chunk.
    pub(super) fn end(&self) -> u64 {
        self.first + self.chunks.len() as u64
    }

    /// Returns a chunk by its number.
    pub(super) fn get(&self, number: u64) -> Option<&Arc<str>> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.chunks.get(index)
    }

    /// Replaces the log by that of a newer attempt, from this chunk on.
    pub(super) fn begin(&mut self, epoch: u64, first: u64) {
        if epoch > self.epoch {
            *self = Self { epoch, first, unflushed: first, untrimmed: first, ..Self::default() };
        }
    }

    /// Appends a chunk, and drops the oldest ones over the limit.
    pub(super) fn push(&mut self, chunk: Arc<str>) {
        self.bytes += chunk.len();
        self.chunks.push_back(chunk);
        while self.bytes > LOG_BYTES_MAX {
            let Some(oldest) = self.chunks.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.len());
            self.first += 1;
        }
    }

    /// Adds chunks of another process. Ignores those of an older attempt and those that the log has. After
    /// a gap, the log continues with the new chunks alone.
    pub(super) fn receive(&mut self, epoch: u64, first: u64, chunks: Vec<Arc<str>>) {
        if epoch < self.epoch {
            return;
        }
        self.begin(epoch, first);
        if first > self.end() {
            (self.first, self.bytes) = (first, 0);
            self.chunks.clear();
        }
        let known = usize::try_from(self.end() - first).unwrap_or(usize::MAX);
        for chunk in chunks.into_iter().skip(known) {
            self.push(chunk);
        }
    }

    pub(super) fn has_unflushed(&self) -> bool {
        self.unflushed < self.end()
    }

    /// Takes the next unflushed chunks, up to the size of a part. Returns the number of the first one.
    pub(super) fn take_unflushed(&mut self) -> (u64, Vec<Arc<str>>) {
        let first = self.unflushed.max(self.first);
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        self.unflushed = first;
        while let Some(chunk) = self.get(self.unflushed)
            && bytes < PART_BYTES
        {
            bytes += chunk.len();
            chunks.push(Arc::clone(chunk));
            self.unflushed += 1;
        }
        (first, chunks)
    }

    /// Returns the number of the first chunk in the log, if it has dropped flushed ones since the last call.
    pub(super) fn take_trimmed(&mut self) -> Option<u64> {
        let has_dropped = self.untrimmed < self.first.min(self.unflushed);
        has_dropped.then(|| {
            self.untrimmed = self.first;
            self.first
        })
    }
}
