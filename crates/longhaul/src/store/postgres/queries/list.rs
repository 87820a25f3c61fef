//! Lists of jobs.

use std::collections::HashMap;

use crate::job::{Job, JobId, Status, TenantId};
use crate::store::postgres::connection::database::Connection;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::row::JobRow;
use crate::store::postgres::{Inner, sql};
use crate::store::rows::{ListQueryParams, examined_before_end, listed_statuses};
use crate::store::{Filter, Page, PageRequest};

impl Inner {
    /// Returns a page of matching jobs, newest first.
    pub(crate) async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        let mut params = ListQueryParams::new(filter, page);
        let last_examined =
            last_examined(&mut connection, tenant, filter, page, &params.before).await?;
        params.end = last_examined.map(|id| id.to_string()).unwrap_or_default();
        let ListQueryParams { before, kind, queue, created_after, labels, limit, end } = &params;
        let common: [&dyn Param; 8] =
            [tenant, before, kind, queue, created_after, labels, limit, end];
        let mut found: Vec<String> = Vec::new();
        for status in listed_statuses(filter) {
            let name = status.map(Status::as_str);
            let (sql, further): (_, &[&dyn Param]) = match (&filter.parent, status) {
                (Some(parent), _) => (sql::LIST_OF_PARENT, &[parent, &name]),
                (None, None) => (sql::LIST_BY_ID, &[]),
                (None, Some(Status::Running)) => (sql::LIST_RUNNING, &[]),
                (None, Some(Status::Pending)) => (sql::LIST_PENDING, &[]),
                (
                    None,
                    Some(Status::Waiting | Status::Completed | Status::Failed | Status::Cancelled),
                ) => (sql::LIST_FINISHED, &[&name]),
            };
            found.extend(connection.all::<String>(sql, &[&common, further].concat()).await?);
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        // A job whose status changed between two statements occurs twice.
        found.dedup();
        let more = found.len() > page.jobs_max();
        found.truncate(page.jobs_max());
        let tenants = vec![tenant; found.len()];
        let mut jobs: HashMap<String, Job> = HashMap::with_capacity(found.len());
        for row in connection.query(sql::ENTRIES, &[&tenants, &found]).await? {
            let job = JobRow::from(&row)?.entry.job;
            jobs.insert(job.id.to_string(), job);
        }
        let last = found.last().and_then(|id| id.parse().ok());
        let next = if more { last } else { last_examined };
        let jobs: Vec<Job> = found.iter().filter_map(|id| jobs.remove(id)).collect();
        Ok(Page { jobs, next })
    }
}

/// Returns the last job that the page examines; `None` if it examines all that are left.
async fn last_examined(
    connection: &mut Connection,
    tenant: &TenantId,
    filter: &Filter,
    page: &PageRequest,
    before: &str,
) -> Result<Option<JobId>, PgError> {
    let Some(skipped) = examined_before_end(filter, page) else { return Ok(None) };
    let common: [&dyn Param; 3] = [tenant, &before, &skipped];
    let mut last: Option<JobId> = None;
    for status in listed_statuses(filter) {
        let name = status.map(Status::as_str);
        let (sql, further): (_, &[&dyn Param]) = match (&filter.parent, status) {
            (Some(parent), _) => (sql::LIST_END_OF_PARENT, &[parent]),
            (None, None) => (sql::LIST_END_BY_ID, &[]),
            (None, Some(Status::Pending)) => (sql::LIST_END_PENDING, &[]),
            // No more than there are slots.
            (None, Some(Status::Running | Status::Waiting)) => continue,
            (None, Some(Status::Completed | Status::Failed | Status::Cancelled)) => {
                (sql::LIST_END_FINISHED, &[&name])
            }
        };
        // The newest of the last ones, because older jobs of the other statuses belong to the next page.
        last = last.max(connection.first(sql, &[&common, further].concat()).await?);
    }
    Ok(last)
}
