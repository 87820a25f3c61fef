//! Claims of webhook deliveries, round-robin over the queues of outboxes.
//!
//! Each endpoint has a queue. One job per queue and round keeps an endpoint that hangs, and may have many
//! pending deliveries, from delaying the others. A queue without capacity costs one seek.

use super::candidates::{CandidateSource, Candidates};
use crate::job::Name;
use crate::store::fairness::{Lanes, round_robin};
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;
use crate::store::{Claim, QueueCapacity};

/// An outbox and one of its queues.
pub(super) type OutboxQueue = (String, String);

/// Selects the jobs of all kinds of a claim. Starts after the queue that was served last.
pub(super) fn select(
    tx: &Tx<'_>,
    want: &Claim,
    capacity: &QueueCapacity,
    last: &mut OutboxQueue,
) -> rusqlite::Result<Vec<i64>> {
    let mut selected = Vec::new();
    for kind in &want.kinds {
        let left = kind.capacity.min(want.limit.saturating_sub(selected.len()));
        let (start, kind) = (last.clone(), kind.kind.as_str());
        let at = start.clone();
        let mut lanes = QueueLanes { tx, kind, left, capacity, last, start, at, wrapped: false };
        selected.extend(round_robin(&mut lanes)?);
    }
    Ok(selected)
}

/// One lane per queue, for one kind.
struct QueueLanes<'a, 'm> {
    tx: &'a Tx<'a>,
    kind: &'a str,
    /// Jobs that may still be taken.
    left: usize,
    capacity: &'a QueueCapacity,
    /// The queue that was served last.
    last: &'m mut OutboxQueue,
    start: OutboxQueue,
    at: OutboxQueue,
    wrapped: bool,
}

/// One queue during a claim.
struct QueueLane<'a> {
    key: OutboxQueue,
    candidates: Candidates<'a>,
    capacity: usize,
    /// True after its first job was taken, in the round that moves the rotation on.
    served: bool,
}

impl<'a> Lanes for QueueLanes<'a, '_> {
    type Lane = QueueLane<'a>;
    type Job = i64;
    type Error = rusqlite::Error;

    fn discover(&mut self) -> rusqlite::Result<Option<QueueLane<'a>>> {
        let key = loop {
            match next_queue(self.tx, self.kind, &self.at)? {
                Some(next) if self.wrapped && next > self.start => return Ok(None),
                Some(next) => break next,
                None if self.wrapped => return Ok(None),
                None => (self.at, self.wrapped) = (OutboxQueue::default(), true),
            }
        };
        self.at.clone_from(&key);
        let queue = key.1.clone();
        // An invalid name has no capacity of its own: reading its jobs quarantines them.
        let capacity = Name::new(&queue).map_or(self.left, |queue| self.capacity.of(&queue));
        let candidates = Candidates::new(self.kind, CandidateSource::Outbox(queue), None);
        Ok(Some(QueueLane { key, candidates, capacity, served: false }))
    }

    fn take(&mut self, lane: &mut QueueLane<'a>) -> rusqlite::Result<Option<i64>> {
        if lane.capacity == 0 {
            return Ok(None);
        }
        let seq = lane.candidates.pop(self.tx, &lane.key.0)?;
        if seq.is_some() {
            (self.left, lane.capacity) = (self.left - 1, lane.capacity - 1);
            if !lane.served {
                lane.served = true;
                self.last.clone_from(&lane.key);
            }
        }
        Ok(seq)
    }

    fn is_full(&self) -> bool {
        self.left == 0
    }
}

/// Returns the next queue with ready jobs.
fn next_queue(
    tx: &Tx<'_>,
    kind: &str,
    (outbox, queue): &OutboxQueue,
) -> rusqlite::Result<Option<OutboxQueue>> {
    let next = tx.one(sql::NEXT_OUTBOX_QUEUE, [kind, outbox, queue])?;
    if next.is_some() { Ok(next) } else { tx.one(sql::NEXT_OUTBOX, [kind, outbox]) }
}
