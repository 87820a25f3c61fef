//! Lists of jobs.

use rusqlite::params;

use crate::job::{Job, Status, TenantId};
use crate::store::rows::{ListQueryParams, listed_statuses};
use crate::store::sqlite::connection::error::SqliteError;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::row::JobRow;
use crate::store::sqlite::sql;
use crate::store::{Filter, Page, PageRequest};

/// Returns a page of matching jobs, newest first.
pub(crate) fn jobs(
    tx: &Tx<'_>,
    tenant: &TenantId,
    filter: &Filter,
    page: &PageRequest,
) -> Result<Page, SqliteError> {
    let params = ListQueryParams::new(filter, page);
    let tenant = tenant.as_str();
    let ListQueryParams { before, kind, queue, created_after, labels, limit } = params;
    let parent = filter.parent.map(|id| id.to_string());
    // Row ids and job ids.
    let mut found: Vec<(i64, String)> = Vec::new();
    for status in listed_statuses(filter) {
        let name = status.map(Status::as_str);
        let of_tenant = params![tenant, before, kind, queue, created_after, labels, limit];
        found.extend(match (&parent, status) {
            (Some(parent), _) => tx.all(
                sql::LIST_OF_PARENT,
                params![tenant, before, kind, queue, created_after, labels, limit, parent, name],
            )?,
            (None, None) => tx.all(sql::LIST_BY_ID, of_tenant)?,
            (None, Some(Status::Pending)) => tx.all(sql::LIST_PENDING, of_tenant)?,
            (None, Some(Status::Running)) => tx.all(sql::LIST_RUNNING, of_tenant)?,
            // No job waits: a handler that sleeps returns its job to the queue.
            (None, Some(Status::Waiting)) => Vec::new(),
            (None, Some(Status::Completed | Status::Failed | Status::Cancelled)) => tx.all(
                sql::LIST_FINISHED,
                params![tenant, before, kind, queue, created_after, labels, limit, name],
            )?,
        });
    }
    found.sort_unstable_by(|(_, one), (_, other)| other.cmp(one));
    let more = found.len() > page.limit;
    found.truncate(page.limit);
    let load = |(seq, _)| JobRow::load(tx, seq).map(|row| row.stored.job);
    let jobs: Vec<Job> = found.into_iter().map(load).collect::<Result<_, _>>()?;
    let next = jobs.last().map(|job| job.id).filter(|_| more);
    Ok(Page { jobs, next })
}
