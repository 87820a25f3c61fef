//! Executes a job search.

use longhaul::JobId;
use longhaul::store::{Filter, PageRequest, StoreError};
use longhaul_client::wire::JobSummary;

use super::search::JobSearch;
use crate::api::http::caller::Caller;
use crate::dashboard::components::count_of;
use crate::jobs::query::{self, ListQuery};
use crate::problem::Result;
use crate::to_wire;

/// Number of the newest jobs that a text search reads.
const SEARCHED_MAX: usize = 2_000;

#[derive(Debug)]
pub(super) struct SearchResults {
    pub(super) jobs: Vec<JobSummary>,
    /// Cursor of the next page.
    pub(super) next: Option<String>,
    /// Scope and result of a text search.
    pub(super) note: Option<String>,
}

pub(super) async fn find(caller: &Caller, search: &JobSearch) -> Result<SearchResults> {
    let Some(text) = &search.text else {
        let found = query::list_full(caller, &search.query).await?;
        return Ok(SearchResults { jobs: found.jobs, next: found.next_cursor, note: None });
    };
    if let Some(job) = find_by_name(caller, text).await? {
        return Ok(SearchResults { jobs: vec![job], next: None, note: None });
    }
    let filter = search.query.filter.clone();
    let filters = if filter == Filter::default() { "" } else { " with these filters" };
    let newest = ListQuery { filter, page: PageRequest::new(SEARCHED_MAX, None) };
    let mut found = query::list_full(caller, &newest).await?;
    let all = found.jobs.len();
    found.jobs.retain(|job| matches(job, text));
    let matching = found.jobs.len();
    found.jobs.truncate(search.query.page.limit);
    let matches = match matching {
        0 => "No matches".to_owned(),
        1 => "1 match".to_owned(),
        many => format!("{} matches", count_of(many)),
    };
    let scope = if found.next_cursor.is_some() { "the newest" } else { "all" };
    let limit = match found.jobs.len() {
        shown if shown < matching => format!(" Showing the newest {}.", count_of(shown)),
        _ => String::new(),
    };
    let note = format!("{matches} in {scope} {} jobs{filters}.{limit}", count_of(all));
    Ok(SearchResults { jobs: found.jobs, next: None, note: Some(note) })
}

/// Returns the job with this id or idempotency key.
async fn find_by_name(caller: &Caller, text: &str) -> Result<Option<JobSummary>, StoreError> {
    let by_id = match text.parse::<JobId>() {
        Ok(id) => caller.engine.job(id).await,
        Err(()) => Err(StoreError::NotFound),
    };
    let found = match by_id {
        Err(StoreError::NotFound | StoreError::Gone) => caller.engine.job_by_key(text).await,
        found => found,
    };
    match found {
        Ok(record) => Ok(Some(to_wire::job_summary(&caller.engine, &record.job))),
        Err(StoreError::NotFound | StoreError::Gone) => Ok(None),
        Err(error) => Err(error),
    }
}

fn matches(job: &JobSummary, text: &str) -> bool {
    let wanted = text.to_lowercase();
    let is_in = |field: &str| field.to_lowercase().contains(&wanted);
    job.error.as_ref().is_some_and(|error| is_in(&error.message) || is_in(&error.code))
        || job.idempotency_key.as_deref().is_some_and(is_in)
        || is_in(&job.job_id)
}
