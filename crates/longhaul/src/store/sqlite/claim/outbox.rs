//! Claiming deliveries: the queues of outboxes take turns, each as far as it has room.
//!
//! A receiver that hangs has as many jobs in line as one that answers at once, or many more. One job per queue
//! and round is what keeps them from standing in each other's way; a queue without room costs one seek.

use super::candidates::{Line, Source};
use crate::job::Name;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;
use crate::store::{Claim, QueueCapacity};

/// The queue that was served last, with its outbox.
pub(crate) type Served = (String, String);

/// One queue while a claim picks from it.
struct Turn<'a> {
    outbox: String,
    line: Line<'a>,
    room: usize,
}

/// The jobs to take, in their order. Starts after the queue that was served last.
pub(crate) fn pick(
    tx: &Tx<'_>,
    want: &Claim,
    rooms: &QueueCapacity,
    last: &mut Served,
) -> rusqlite::Result<Vec<i64>> {
    let mut picked = Vec::new();
    for kind in &want.kinds {
        let left = kind.capacity.min(want.limit.saturating_sub(picked.len()));
        pick_kind(tx, kind.kind.as_str(), left, rooms, last, &mut picked)?;
    }
    Ok(picked)
}

fn pick_kind(
    tx: &Tx<'_>,
    kind: &str,
    mut left: usize,
    rooms: &QueueCapacity,
    last: &mut Served,
    picked: &mut Vec<i64>,
) -> rusqlite::Result<()> {
    let mut turns = Vec::new();
    let start = last.clone();
    let (mut at, mut wrapped) = (start.clone(), false);
    // The first round finds the queues on its way, and no more of them than it needs.
    while left > 0 {
        let Some(next) = hop(tx, kind, &at)? else {
            if wrapped {
                break;
            }
            (at, wrapped) = (Served::default(), true);
            continue;
        };
        if wrapped && next > start {
            break;
        }
        at = next;
        let (outbox, queue) = at.clone();
        // A name that cannot be is not held back: whoever reads its jobs sets them aside.
        let room = Name::new(&queue).map_or(left, |queue| rooms.of(&queue));
        let line = Line::new(kind, Source::Outbox(queue), None);
        let mut turn = Turn { outbox, line, room };
        if let Some(seq) = turn.take(tx)? {
            left -= 1;
            picked.push(seq);
            last.clone_from(&at);
            turns.push(turn);
        }
    }
    while left > 0 && !turns.is_empty() {
        let mut still_in_line = Vec::with_capacity(turns.len());
        for mut turn in turns {
            if left == 0 {
                break;
            }
            if let Some(seq) = turn.take(tx)? {
                left -= 1;
                picked.push(seq);
                still_in_line.push(turn);
            }
        }
        turns = still_in_line;
    }
    Ok(())
}

/// The next queue that has jobs in line.
fn hop(tx: &Tx<'_>, kind: &str, (outbox, queue): &Served) -> rusqlite::Result<Option<Served>> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let next = tx.one(sql::NEXT_OUTBOX_QUEUE, [kind, outbox, queue], read)?;
    if next.is_some() { Ok(next) } else { tx.one(sql::NEXT_OUTBOX, [kind, outbox], read) }
}

impl Turn<'_> {
    fn take(&mut self, tx: &Tx<'_>) -> rusqlite::Result<Option<i64>> {
        if self.room == 0 {
            return Ok(None);
        }
        let seq = self.line.pop(tx, &self.outbox)?;
        self.room -= usize::from(seq.is_some());
        Ok(seq)
    }
}
