//! Lists of jobs.

use std::collections::BTreeSet;

use rusqlite::params;

use crate::job::{Job, JobId, Name, Status, TenantId, Timestamp};
use crate::store::sqlite::connection::columns::{limit, to_json};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::row::Row;
use crate::store::sqlite::sql;
use crate::store::{Filter, Page, PageRequest};

/// Sorts after every id.
const AFTER_ALL_IDS: &str = "~";

/// Returns a page of matching jobs, newest first.
pub(crate) fn jobs(
    tx: &Tx<'_>,
    tenant: &TenantId,
    filter: &Filter,
    page: &PageRequest,
) -> Result<Page, SqliteError> {
    let statuses: BTreeSet<Status> = filter.statuses.iter().copied().collect();
    let search = ListParams::new(tenant, filter, page)?;
    let mut found = Vec::new();
    match filter.parent {
        Some(parent) => {
            let each = statuses.iter().copied().map(Some);
            let any = statuses.is_empty().then_some(None);
            for status in each.chain(any) {
                found.extend(search.of_parent(tx, parent, status)?);
            }
        }
        None if statuses.is_empty() => found = search.all(tx)?,
        None => {
            for status in statuses {
                found.extend(search.of(tx, status)?);
            }
        }
    }
    found.sort_unstable_by(|(_, one), (_, other)| other.cmp(one));
    let more = found.len() > page.limit;
    found.truncate(page.limit);
    let load = |(seq, _)| Row::load(tx, seq).map(|row| row.stored.job);
    let jobs: Vec<Job> = found.into_iter().map(load).collect::<Result<_, _>>()?;
    let next = jobs.last().map(|job| job.id).filter(|_| more);
    Ok(Page { jobs, next })
}

/// The parameters of a list statement.
struct ListParams<'a> {
    tenant: &'a str,
    before: String,
    kind: Option<&'a str>,
    queue: Option<&'a str>,
    created_after: Option<i64>,
    labels: Option<String>,
    /// One more than requested, to detect another page.
    limit: i64,
}

impl<'a> ListParams<'a> {
    fn new(tenant: &'a TenantId, filter: &'a Filter, page: &PageRequest) -> rusqlite::Result<Self> {
        let labels = &filter.labels;
        Ok(Self {
            tenant: tenant.as_str(),
            before: page.before.map_or_else(|| AFTER_ALL_IDS.to_owned(), |id| id.to_string()),
            kind: filter.kind.as_ref().map(Name::as_str),
            queue: filter.queue.as_ref().map(Name::as_str),
            created_after: filter.created_after.map(Timestamp::as_millis),
            labels: if labels.is_empty() { None } else { Some(to_json(labels)?) },
            limit: limit(page.limit.saturating_add(1)),
        })
    }

    /// Returns row and job ids with any status.
    fn all(&self, tx: &Tx<'_>) -> rusqlite::Result<Vec<(i64, String)>> {
        let Self { tenant, before, kind, queue, created_after, labels, limit } = self;
        let params = params![tenant, before, kind, queue, created_after, labels, limit];
        tx.all(sql::LIST_BY_ID, params, |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns row and job ids with one status.
    fn of(&self, tx: &Tx<'_>, status: Status) -> rusqlite::Result<Vec<(i64, String)>> {
        let Self { tenant, before, kind, queue, created_after, labels, limit } = self;
        let status = status.as_str();
        let params = params![tenant, before, kind, queue, created_after, labels, limit, status];
        tx.all(sql::LIST_BY_STATUS, params, |row| Ok((row.get(0)?, row.get(1)?)))
    }
}

impl ListParams<'_> {
    /// Returns row and job ids of the children of a job.
    fn of_parent(
        &self,
        tx: &Tx<'_>,
        parent: JobId,
        status: Option<Status>,
    ) -> rusqlite::Result<Vec<(i64, String)>> {
        let Self { tenant, before, kind, queue, created_after, labels, limit } = self;
        let (parent, status) = (parent.to_string(), status.map(Status::as_str));
        let params =
            params![tenant, before, kind, queue, created_after, labels, limit, parent, status];
        tx.all(sql::LIST_OF_PARENT, params, |row| Ok((row.get(0)?, row.get(1)?)))
    }
}
