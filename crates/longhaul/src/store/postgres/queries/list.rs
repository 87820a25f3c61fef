//! Lists of jobs.

use std::collections::HashMap;

use crate::job::{Job, Status, TenantId};
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::row::JobRow;
use crate::store::postgres::{Inner, sql};
use crate::store::rows::{ListQueryParams, listed_statuses};
use crate::store::{Filter, Page, PageRequest};

impl Inner {
    /// Returns a page of matching jobs, newest first.
    pub(crate) async fn jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, PgError> {
        let params = ListQueryParams::new(filter, page);
        let ListQueryParams { before, kind, queue, created_after, labels, limit } = &params;
        let common: [&dyn Param; 7] = [tenant, before, kind, queue, created_after, labels, limit];
        let mut connection = self.database.tenant_connection(tenant).await?;
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
        let more = found.len() > page.limit;
        found.truncate(page.limit);
        let tenants = vec![tenant; found.len()];
        let mut jobs: HashMap<String, Job> = HashMap::with_capacity(found.len());
        for row in connection.query(sql::ENTRIES, &[&tenants, &found]).await? {
            let job = JobRow::from(&row)?.entry.job;
            jobs.insert(job.id.to_string(), job);
        }
        let next = found.last().filter(|_| more).and_then(|id| id.parse().ok());
        let jobs: Vec<Job> = found.iter().filter_map(|id| jobs.remove(id)).collect();
        Ok(Page { jobs, next })
    }
}
