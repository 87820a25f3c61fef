//! One tenant's jobs in line while a claim picks from them.

use std::collections::{HashMap, VecDeque};

use rusqlite::params;

use super::limits::{LimitNames, Meters};
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// How much is read ahead grows by this factor: many tenants with a job each cost one row each, and
/// one tenant with all the jobs costs few reads.
const READ_AHEAD_GROWTH: usize = 4;

/// The jobs of one tenant that may be claimed.
pub(crate) struct TenantQueue<'a> {
    pub(crate) tenant: String,
    /// Each kind has a line of its own, since each has its own room; and each queue of it, if any
    /// queue has a limit.
    lines: Vec<Line<'a>>,
}

/// Some jobs in line, in their order.
pub(crate) struct Line<'a> {
    kind: &'a str,
    source: Source,
    /// None if nothing is limited.
    names: Option<LimitNames>,
    /// Read but not picked, in order.
    heads: VecDeque<Head>,
    /// Where the last read ended.
    read_to: (i64, String),
    read_ahead: usize,
    /// Whether the last read found the end.
    dry: bool,
}

/// Which of a tenant's jobs a line is of.
pub(crate) enum Source {
    /// All of its kind.
    Tenant,
    /// Those of a queue.
    Queue(String),
    /// Those of a queue of an outbox.
    Outbox(String),
}

/// Ordered as jobs are claimed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    rank: i64,
    id: String,
    seq: i64,
}

impl<'a> TenantQueue<'a> {
    pub(crate) fn new(
        tx: &Tx<'_>,
        tenant: String,
        kinds: Vec<&'a str>,
        meters: &Meters<'_>,
    ) -> rusqlite::Result<Self> {
        let mut lines = Vec::with_capacity(kinds.len());
        for kind in kinds {
            if !meters.by_queue {
                lines.push(Line::new(kind, Source::Tenant, meters.names(&tenant, kind, None)));
                continue;
            }
            let mut last = String::new();
            let hop = |last: &str| tx.one(sql::NEXT_QUEUE, [kind, &tenant, last], |row| row.get(0));
            while let Some(queue) = hop(&last)? {
                last = queue;
                let names = meters.names(&tenant, kind, Some(&last));
                lines.push(Line::new(kind, Source::Queue(last.clone()), names));
            }
        }
        Ok(Self { tenant, lines })
    }

    /// Takes the job with the least rank, then id, of a kind that has room and that no limit holds
    /// back.
    pub(crate) fn pop(
        &mut self,
        tx: &Tx<'_>,
        room: &HashMap<&str, usize>,
        meters: &mut Meters<'_>,
    ) -> rusqlite::Result<Option<(&'a str, i64)>> {
        let mut first: Option<&mut Line<'a>> = None;
        for line in &mut self.lines {
            if room.get(line.kind).is_none_or(|room| *room == 0) {
                continue;
            }
            line.read_on(tx, &self.tenant)?;
            let Some(head) = line.heads.front() else { continue };
            let is_first = first
                .as_ref()
                .and_then(|first| first.heads.front())
                .is_none_or(|least| head < least);
            if is_first && line.is_let_in(tx, meters)? {
                first = Some(line);
            }
        }
        let Some(line) = first else { return Ok(None) };
        if let Some(names) = &line.names {
            meters.reserve(names);
        }
        Ok(line.heads.pop_front().map(|head| (line.kind, head.seq)))
    }
}

impl<'a> Line<'a> {
    pub(crate) fn new(kind: &'a str, source: Source, names: Option<LimitNames>) -> Self {
        let read_to = (i64::MIN, String::new());
        Self { kind, source, names, heads: VecDeque::new(), read_to, read_ahead: 1, dry: false }
    }

    /// Takes the first.
    pub(crate) fn pop(&mut self, tx: &Tx<'_>, tenant: &str) -> rusqlite::Result<Option<i64>> {
        self.read_on(tx, tenant)?;
        Ok(self.heads.pop_front().map(|head| head.seq))
    }

    fn is_let_in(&self, tx: &Tx<'_>, meters: &mut Meters<'_>) -> rusqlite::Result<bool> {
        self.names.as_ref().map_or(Ok(true), |names| meters.admit(tx, names))
    }

    /// Reads the next jobs, if all that were read are picked.
    fn read_on(&mut self, tx: &Tx<'_>, tenant: &str) -> rusqlite::Result<()> {
        if !self.heads.is_empty() || self.dry {
            return Ok(());
        }
        let (rank, id) = &self.read_to;
        let ahead = limit(self.read_ahead);
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Head { seq: row.get(0)?, rank: row.get(1)?, id: row.get(2)? })
        };
        let (statement, queue) = match &self.source {
            Source::Tenant => (sql::READY_OF_TENANT, None),
            Source::Queue(queue) => (sql::READY_OF_QUEUE, Some(queue)),
            Source::Outbox(queue) => (sql::READY_OF_OUTBOX, Some(queue)),
        };
        let heads = match queue {
            None => tx.all(statement, params![self.kind, tenant, rank, id, ahead], read)?,
            Some(queue) => {
                tx.all(statement, params![self.kind, tenant, rank, id, ahead, queue], read)?
            }
        };
        self.dry = heads.len() < self.read_ahead;
        if let Some(last) = heads.last() {
            self.read_to = (last.rank, last.id.clone());
        }
        self.heads = heads.into();
        self.read_ahead = self.read_ahead.saturating_mul(READ_AHEAD_GROWTH);
        Ok(())
    }
}
