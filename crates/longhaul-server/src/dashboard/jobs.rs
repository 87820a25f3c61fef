//! List of jobs with search, filters and bulk actions.

mod bulk;
mod results;
mod search;

use axum::extract::State;
use axum::response::Response;
use longhaul::Timestamp;
use longhaul_client::wire::{Instant, JobSummary, Status};
use maud::{Markup, html};

pub(super) use bulk::bulk;

use super::components::{self, duration, empty_state, status, time, timestamp, truncated};
use super::layout::Section;
use super::page_context::PageContext;
use crate::api::AppState;
use crate::api::http::caller::{Control, Inspect, Read, Submit};
use crate::problem::Result;
use results::SearchResults;
use search::JobSearch;

/// Default page size.
const PAGE: &str = "50";
/// Length limit of the error in the column "Details".
const DETAILS_CHARS_MAX: usize = 240;

pub(super) async fn list(
    State(state): State<AppState>,
    ctx: PageContext<Read>,
) -> Result<Response> {
    let search = JobSearch::parse(&ctx.query, &state, ctx.caller.engine.now())?;
    let results = results::find(&ctx.caller, &search).await?;
    let kinds = ctx.caller.engine.all_kinds().await?;
    let now = ctx.caller.engine.now();
    let content = html! {
        h1 { "Jobs" }
        (search.form(&ctx, &kinds))
        section #list data-live aria-label="Matching jobs" {
            @if let Some(note) = &results.note { p.soft { (note) } }
            @if results.jobs.is_empty() {
                (no_jobs(&search, &results))
                (pages(&ctx, &search, &results))
            } @else {
                (table(&ctx, &search, &results, now))
            }
        }
    };
    Ok(ctx.page("Jobs", Section::Jobs, &content))
}

fn no_jobs(search: &JobSearch, results: &SearchResults) -> Markup {
    if results.next.is_some() {
        return html! {
            div.empty { p { "No matching jobs so far. Older jobs have not been searched yet." } }
        };
    }
    if search.is_unfiltered() {
        return empty_state(
            "No jobs yet. Submit one here or from a shell:",
            "longhaul submit demo '{\"steps\": 3, \"sleep\": \"2s\"}' --wait",
        );
    }
    html! { div.empty { p { "No matching jobs. " a href="/ui/jobs" { "Show all jobs" } } } }
}

fn table(
    ctx: &PageContext<Read>,
    search: &JobSearch,
    results: &SearchResults,
    now: Timestamp,
) -> Markup {
    let may_change = ctx.may::<Control>();
    html! {
        form #bulk method="post" {
            // Enter in a field presses the first button of the form, even one in a closed dialog. This
            // button does nothing.
            button formmethod="dialog" hidden tabindex="-1" {}
            (components::token_field(&ctx.session))
            input type="hidden" name="filter" value=(search.query_text());
            @if may_change { (bulk::bar(ctx, search, results)) }
            div.scroll tabindex="0" role="group" aria-label="Table of jobs" {
                table.rows {
                    thead {
                        tr {
                            @if may_change {
                                th.tick {
                                    input #all type="checkbox" data-all="job"
                                        aria-label="Select all jobs on this page";
                                }
                            }
                            th { "Job" }
                            th { "Kind" }
                            th.wide { "Queue" }
                            th { "Status" }
                            th.wide { "Attempt" }
                            th { "Submitted" } th.wide { "Duration" } th { "Details" }
                        }
                    }
                    tbody { @for job in &results.jobs { (row(ctx, job, may_change, now)) } }
                }
            }
        }
        (pages(ctx, search, results))
    }
}

fn row(ctx: &PageContext<Read>, job: &JobSummary, may_change: bool, now: Timestamp) -> Markup {
    let id = &job.job_id;
    let url = ctx.link(&format!("/ui/jobs/{id}"), &[]);
    html! {
        tr data-row=(url) {
            @if may_change {
                td.tick {
                    input type="checkbox" name="job" value=(id) aria-label=(format!("Select {id}"));
                }
            }
            td { a.id href=(url) { (id) } (labels(job)) }
            td { (job.kind) }
            td.wide { (job.queue) }
            td {
                (status(job.status))
                @if let Some(phase) = &job.phase { span.phase { (truncated(phase, 40)) } }
            }
            td.wide { (job.attempt) " of " (job.max_attempts) }
            td { (time(&job.created_at)) }
            td.wide {
                @if let Some(started_at) = &job.started_at {
                    (run_duration(started_at, job.completed_at.as_ref(), now))
                } @else { "–" }
            }
            td.details { (details(job, now)) }
        }
    }
}

fn labels(job: &JobSummary) -> Markup {
    html! {
        @if !job.labels.is_empty() {
            span.labels {
                @for (name, value) in job.labels.iter().take(4) {
                    span.label { (truncated(name, 40)) "=" (truncated(value, 40)) }
                }
                @if job.labels.len() > 4 { span.soft { (job.labels.len() - 4) " more" } }
            }
        }
    }
}

/// Formats the time since the first attempt started, until the job finished or now.
pub(super) fn run_duration(
    started_at: &Instant,
    completed_at: Option<&Instant>,
    now: Timestamp,
) -> String {
    duration(completed_at.map_or(now, timestamp).since(timestamp(started_at)))
}

/// Renders the latest error, progress or due time of a job.
fn details(job: &JobSummary, now: Timestamp) -> Markup {
    let due_in = timestamp(&job.run_at).since(now);
    let is_scheduled = job.status == Status::Pending && !due_in.is_zero();
    if let Some(error) = job.error.as_ref().filter(|_| job.status != Status::Completed) {
        return html! {
            span.error-text { (truncated(&error.message, DETAILS_CHARS_MAX)) }
            @if is_scheduled { span.soft { " Next attempt in " (duration(due_in)) "." } }
        };
    }
    if let Some(progress) = job.progress.as_ref().filter(|_| !job.status.is_terminal()) {
        return components::progress(progress);
    }
    html! { @if is_scheduled { span.soft { "Due in " (duration(due_in)) } } }
}

fn pages(ctx: &PageContext<Read>, search: &JobSearch, results: &SearchResults) -> Markup {
    let query = search.pairs();
    html! {
        nav.pages aria-label="Pages of jobs" {
            @if search.is_later_page() { a href=(ctx.link("/ui/jobs", &query)) { "Newest" } }
            @if let Some(next) = &results.next {
                @let query = [query.as_slice(), &[("cursor", next)]].concat();
                a rel="next" href=(ctx.link("/ui/jobs", &query)) { "Older" }
            }
        }
    }
}

fn may_resume(ctx: &PageContext<Read>) -> bool {
    ctx.may::<Submit>() && ctx.may::<Inspect>()
}
