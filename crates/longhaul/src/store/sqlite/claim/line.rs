//! One tenant's jobs in line while a claim picks from them.

use std::collections::{HashMap, VecDeque};

use rusqlite::params;

use super::super::columns::limit;
use super::super::sql;
use super::super::task::Tx;

/// How much is read ahead grows by this factor: many tenants with a job each cost one row each, and
/// one tenant with all the jobs costs few reads.
const READ_AHEAD_GROWTH: usize = 4;

/// The jobs of one tenant that may be claimed.
pub(super) struct TenantLine<'a> {
    pub(super) tenant: String,
    /// Each kind has a line of its own, since each has its own room.
    kinds: Vec<KindLine<'a>>,
}

struct KindLine<'a> {
    kind: &'a str,
    /// Read but not picked, in order.
    heads: VecDeque<Head>,
    /// Where the last read ended.
    read_to: (i64, String),
    read_ahead: usize,
    /// Whether the last read found the end.
    dry: bool,
}

/// Ordered as jobs are claimed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    rank: i64,
    id: String,
    seq: i64,
}

impl<'a> TenantLine<'a> {
    pub(super) fn new(tenant: String, kinds: Vec<&'a str>) -> Self {
        Self { tenant, kinds: kinds.into_iter().map(KindLine::new).collect() }
    }

    /// Takes the job with the least rank, then id, of a kind that has room.
    pub(super) fn pop(
        &mut self,
        tx: &Tx<'_>,
        room: &HashMap<&str, usize>,
    ) -> rusqlite::Result<Option<(&'a str, i64)>> {
        let mut first: Option<&mut KindLine<'a>> = None;
        for line in &mut self.kinds {
            if room.get(line.kind).is_none_or(|room| *room == 0) {
                continue;
            }
            line.read_on(tx, &self.tenant)?;
            let Some(head) = line.heads.front() else { continue };
            if first.as_ref().and_then(|first| first.heads.front()).is_none_or(|least| head < least)
            {
                first = Some(line);
            }
        }
        Ok(first.and_then(|line| Some((line.kind, line.heads.pop_front()?.seq))))
    }
}

impl<'a> KindLine<'a> {
    fn new(kind: &'a str) -> Self {
        let read_to = (i64::MIN, String::new());
        Self { kind, heads: VecDeque::new(), read_to, read_ahead: 1, dry: false }
    }

    /// Reads the next jobs, if all that were read are picked.
    fn read_on(&mut self, tx: &Tx<'_>, tenant: &str) -> rusqlite::Result<()> {
        if !self.heads.is_empty() || self.dry {
            return Ok(());
        }
        let (rank, id) = &self.read_to;
        let heads = tx.all(
            sql::LINE_HEADS,
            params![self.kind, tenant, rank, id, limit(self.read_ahead)],
            |row| Ok(Head { seq: row.get(0)?, rank: row.get(1)?, id: row.get(2)? }),
        )?;
        self.dry = heads.len() < self.read_ahead;
        if let Some(last) = heads.last() {
            self.read_to = (last.rank, last.id.clone());
        }
        self.heads = heads.into();
        self.read_ahead = self.read_ahead.saturating_mul(READ_AHEAD_GROWTH);
        Ok(())
    }
}
