//! From a wish to the jobs on a page.

use longhaul::store::{Filter, PageRequest, StoreError};
use longhaul::{Engine, Job, JobId};

use super::filter::Wish;

/// How many of the newest jobs are looked through for a text.
const SEARCHED_MAX: usize = 2_000;

/// The jobs of one page.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) jobs: Vec<Job>,
    /// There is more, before this one.
    pub(super) next: Option<JobId>,
    /// What the viewer has to know of how they were found.
    pub(super) note: Option<String>,
}

pub(super) async fn find(engine: &Engine, wish: &Wish) -> Result<Found, StoreError> {
    let Some(text) = &wish.text else {
        let found = engine.jobs_page(&wish.filter, &wish.page).await?;
        return Ok(Found { jobs: found.jobs, next: found.next, note: None });
    };
    if let Some(job) = named(engine, text).await? {
        return Ok(Found { jobs: vec![job], next: None, note: None });
    }
    let newest = PageRequest { limit: SEARCHED_MAX, before: None };
    let page = engine.jobs_page(&wish.filter, &newest).await?;
    let all = page.jobs.len();
    let more = page.next.is_some();
    let mut jobs: Vec<Job> = page.jobs.into_iter().filter(|job| says(job, text)).collect();
    let matching = jobs.len();
    jobs.truncate(wish.page.limit);
    let others =
        if wish.filter == Filter::default() { "" } else { " that match the other filters" };
    let which = if more { format!("the newest {all} jobs") } else { format!("all {all} jobs") };
    let shown = if matching > jobs.len() {
        format!(", the newest {} shown", jobs.len())
    } else {
        String::new()
    };
    let note =
        format!("Looked for the text in the errors of {which}{others}: {matching} found{shown}.");
    Ok(Found { jobs, next: None, note: Some(note) })
}

/// The job whose id or idempotency key this is.
async fn named(engine: &Engine, text: &str) -> Result<Option<Job>, StoreError> {
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

fn says(job: &Job, text: &str) -> bool {
    let wanted = text.to_lowercase();
    let is_in = |said: &str| said.to_lowercase().contains(&wanted);
    job.error.as_ref().is_some_and(|error| is_in(&error.message) || is_in(&error.code))
        || job.idempotency_key.as_deref().is_some_and(is_in)
        || is_in(&job.id.to_string())
}
