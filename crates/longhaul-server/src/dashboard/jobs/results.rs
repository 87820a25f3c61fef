//! Executes a job search.

use longhaul::store::{Filter, PageRequest, StoreError};
use longhaul::{Engine, Job, JobId};

use super::search::JobSearch;
use crate::dashboard::components::count;

/// Number of the newest jobs that a text search reads.
const SEARCHED_MAX: usize = 2_000;

#[derive(Debug)]
pub(super) struct SearchResults {
    pub(super) jobs: Vec<Job>,
    /// Cursor of the next page.
    pub(super) next: Option<JobId>,
    /// Scope and result of a text search.
    pub(super) note: Option<String>,
}

pub(super) async fn find(engine: &Engine, search: &JobSearch) -> Result<SearchResults, StoreError> {
    let Some(text) = &search.text else {
        let found = engine.jobs_page(&search.filter, &search.page).await?;
        return Ok(SearchResults { jobs: found.jobs, next: found.next, note: None });
    };
    if let Some(job) = find_by_name(engine, text).await? {
        return Ok(SearchResults { jobs: vec![job], next: None, note: None });
    }
    let newest = PageRequest { limit: SEARCHED_MAX, before: None };
    let page = engine.jobs_page(&search.filter, &newest).await?;
    let all = page.jobs.len();
    let more = page.next.is_some();
    let mut jobs: Vec<Job> = page.jobs.into_iter().filter(|job| matches(job, text)).collect();
    let matching = jobs.len();
    jobs.truncate(search.page.limit);
    let matches = match matching {
        0 => "No matches".to_owned(),
        1 => "1 match".to_owned(),
        many => format!("{} matches", number(many)),
    };
    let scope = if more { "the newest" } else { "all" };
    let filters = if search.filter == Filter::default() { "" } else { " with these filters" };
    let limit = match jobs.len() {
        shown if shown < matching => format!(" Showing the newest {}.", number(shown)),
        _ => String::new(),
    };
    let note = format!("{matches} in {scope} {} jobs{filters}.{limit}", number(all));
    Ok(SearchResults { jobs, next: None, note: Some(note) })
}

fn number(jobs: usize) -> String {
    count(u64::try_from(jobs).unwrap_or(u64::MAX))
}

/// Returns the job with this id or idempotency key.
async fn find_by_name(engine: &Engine, text: &str) -> Result<Option<Job>, StoreError> {
    let by_id = match text.parse::<JobId>() {
        Ok(id) => engine.job(id).await,
        Err(()) => Err(StoreError::NotFound),
    };
    let found = match by_id {
        Err(StoreError::NotFound | StoreError::Gone) => engine.job_by_key(text).await,
        found => found,
    };
    match found {
        Ok(record) => Ok(Some(record.job)),
        Err(StoreError::NotFound | StoreError::Gone) => Ok(None),
        Err(error) => Err(error),
    }
}

fn matches(job: &Job, text: &str) -> bool {
    let wanted = text.to_lowercase();
    let is_in = |field: &str| field.to_lowercase().contains(&wanted);
    job.error.as_ref().is_some_and(|error| is_in(&error.message) || is_in(&error.code))
        || job.idempotency_key.as_deref().is_some_and(is_in)
        || is_in(&job.id.to_string())
}
