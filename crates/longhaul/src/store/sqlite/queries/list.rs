//! Lists of jobs.

use rusqlite::params;

use crate::job::{Job, JobId, Status, TenantId};
use crate::store::rows::{ListQueryParams, examined_before_end, listed_statuses};
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
    let mut params = ListQueryParams::new(filter, page);
    let last_examined = last_examined(tx, tenant, filter, page, &params.before)?;
    params.end = last_examined.map(|id| id.to_string()).unwrap_or_default();
    let ListQueryParams { before, kind, queue, created_after, labels, limit, end } = params;
    let tenant = tenant.as_str();
    let parent = filter.parent.map(|id| id.to_string());
    // Row ids and job ids.
    let mut found: Vec<(i64, String)> = Vec::new();
    for status in listed_statuses(filter) {
        let name = status.map(Status::as_str);
        let of_tenant = params![tenant, before, kind, queue, created_after, labels, limit, end];
        found.extend(match (&parent, status) {
            (Some(parent), _) => tx.all(
                sql::LIST_OF_PARENT,
                params![
                    tenant,
                    before,
                    kind,
                    queue,
                    created_after,
                    labels,
                    limit,
                    end,
                    parent,
                    name
                ],
            )?,
            (None, None) => tx.all(sql::LIST_BY_ID, of_tenant)?,
            (None, Some(Status::Pending)) => tx.all(sql::LIST_PENDING, of_tenant)?,
            (None, Some(Status::Running)) => tx.all(sql::LIST_RUNNING, of_tenant)?,
            // No job waits: a handler that sleeps returns its job to the queue.
            (None, Some(Status::Waiting)) => Vec::new(),
            (None, Some(Status::Completed | Status::Failed | Status::Cancelled)) => tx.all(
                sql::LIST_FINISHED,
                params![tenant, before, kind, queue, created_after, labels, limit, end, name],
            )?,
        });
    }
    found.sort_unstable_by(|(_, one), (_, other)| other.cmp(one));
    let more = found.len() > page.jobs_max();
    found.truncate(page.jobs_max());
    let load = |(seq, _)| JobRow::load(tx, seq).map(|row| row.stored.job);
    let jobs: Vec<Job> = found.into_iter().map(load).collect::<Result<_, _>>()?;
    let next = if more { jobs.last().map(|job| job.id) } else { last_examined };
    Ok(Page { jobs, next })
}

/// Returns the last job that the page examines; `None` if it examines all that are left.
fn last_examined(
    tx: &Tx<'_>,
    tenant: &TenantId,
    filter: &Filter,
    page: &PageRequest,
    before: &str,
) -> Result<Option<JobId>, SqliteError> {
    let Some(skipped) = examined_before_end(filter, page) else { return Ok(None) };
    let tenant = tenant.as_str();
    let mut last = None;
    for status in listed_statuses(filter) {
        // The newest of the last ones, because older jobs of the other statuses belong to the next page.
        last = last.max(match (filter.parent, status) {
            (Some(parent), _) => {
                let parent = parent.to_string();
                tx.one(sql::LIST_END_OF_PARENT, params![tenant, before, skipped, parent])?
            }
            (None, None) => tx.one(sql::LIST_END_BY_ID, params![tenant, before, skipped])?,
            (None, Some(Status::Pending)) => {
                tx.one(sql::LIST_END_PENDING, params![tenant, before, skipped])?
            }
            // No more than there are slots.
            (None, Some(Status::Running | Status::Waiting)) => None,
            (None, Some(status @ (Status::Completed | Status::Failed | Status::Cancelled))) => {
                let status = status.as_str();
                tx.one(sql::LIST_END_FINISHED, params![tenant, before, skipped, status])?
            }
        });
    }
    Ok(last)
}
