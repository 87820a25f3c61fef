//! Lists of jobs.

use std::collections::{BTreeSet, HashMap};

use crate::job::{Job, JobId, Name, Status, TenantId, Timestamp};
use crate::store::postgres::connection::columns::{Columns, limit, to_json};
use crate::store::postgres::connection::database::Connection;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::row::Row;
use crate::store::postgres::{Inner, sql};
use crate::store::{Filter, Page, PageRequest};

/// Sorts after every id.
const AFTER_ALL_IDS: &str = "~";

impl Inner {
    /// Returns a page of matching jobs, newest first.
    pub(crate) async fn try_jobs(
        &self,
        tenant: &TenantId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page, PgError> {
        let statuses: BTreeSet<Status> = filter.statuses.iter().copied().collect();
        let search = Search::new(tenant, filter, page)?;
        let mut connection = self.database.tenant_connection(tenant).await?;
        let mut found = if filter.parent.is_some() {
            Vec::new()
        } else if statuses.is_empty() {
            search.run(&mut connection, sql::LIST_BY_ID, None).await?
        } else {
            Vec::new()
        };
        if let Some(parent) = filter.parent {
            let each = statuses.iter().copied().map(Some);
            let any = statuses.is_empty().then_some(None);
            for status in each.chain(any) {
                found.extend(search.of_parent(&mut connection, parent, status).await?);
            }
        }
        for status in statuses.into_iter().filter(|_| filter.parent.is_none()) {
            let sql = match status {
                Status::Running => sql::LIST_RUNNING,
                Status::Pending => sql::LIST_PENDING,
                Status::Waiting | Status::Completed | Status::Failed | Status::Cancelled => {
                    sql::LIST_FINISHED
                }
            };
            let is_settled = !matches!(status, Status::Pending | Status::Running);
            let status = is_settled.then(|| status.as_str());
            found.extend(search.run(&mut connection, sql, status).await?);
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        // A job whose status changed between two statements occurs twice.
        found.dedup();
        let more = found.len() > page.limit;
        found.truncate(page.limit);
        let tenants = vec![tenant.as_str(); found.len()];
        let mut jobs: HashMap<String, Job> = HashMap::with_capacity(found.len());
        for row in connection.query(sql::ENTRIES, &[&tenants, &found]).await? {
            let job = Row::from(&row)?.entry.job;
            jobs.insert(job.id.to_string(), job);
        }
        let next = found.last().filter(|_| more).and_then(|id| id.parse().ok());
        let jobs: Vec<Job> = found.iter().filter_map(|id| jobs.remove(id)).collect();
        Ok(Page { jobs, next })
    }
}

/// The parameters of a list statement.
struct Search<'a> {
    tenant: &'a str,
    before: String,
    kind: Option<&'a str>,
    queue: Option<&'a str>,
    created_after: Option<i64>,
    labels: Option<String>,
    /// One more than requested, to detect another page.
    limit: i64,
}

impl<'a> Search<'a> {
    fn new(tenant: &'a TenantId, filter: &'a Filter, page: &PageRequest) -> Result<Self, PgError> {
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

    async fn of_parent(
        &self,
        connection: &mut Connection,
        parent: JobId,
        status: Option<Status>,
    ) -> Result<Vec<String>, PgError> {
        let Self { tenant, before, kind, queue, created_after, labels, limit } = self;
        let (parent, status) = (parent.to_string(), status.map(Status::as_str));
        let params: [&dyn Param; 9] =
            [tenant, before, kind, queue, created_after, labels, limit, &parent, &status];
        let rows = connection.query(sql::LIST_OF_PARENT, &params).await?;
        rows.iter().map(|row| Columns::of(row).get()).collect()
    }

    async fn run(
        &self,
        connection: &mut Connection,
        sql: &'static str,
        status: Option<&str>,
    ) -> Result<Vec<String>, PgError> {
        let Self { tenant, before, kind, queue, created_after, labels, limit } = self;
        let common: [&dyn Param; 7] = [tenant, before, kind, queue, created_after, labels, limit];
        let rows = match &status {
            None => connection.query(sql, &common).await?,
            Some(status) => {
                let mut params = common.to_vec();
                params.push(status);
                connection.query(sql, &params).await?
            }
        };
        rows.iter().map(|row| Columns::of(row).get()).collect()
    }
}
