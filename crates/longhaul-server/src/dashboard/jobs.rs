//! The list of jobs.

mod bulk;
mod filter;
mod search;

use axum::extract::State;
use axum::response::Response;
use longhaul::{Job, Status, Timestamp};
use maud::{Markup, html};

pub(super) use bulk::bulk;

use super::layout::Place;
use super::parts::{self, cut, empty, status, time, took};
use super::view::View;
use crate::api::AppState;
use crate::api::http::caller::{Control, Inspect, Read, Submit};
use crate::api::jobs::list::cursor;
use crate::problem::Problem;
use filter::Wish;
use search::Found;

/// Jobs on one page, unless the address says otherwise.
const PAGE: &str = "50";
/// Characters that are shown of what a job says.
const SAID_CHARS_MAX: usize = 240;

pub(super) async fn list(
    State(state): State<AppState>,
    view: View<Read>,
) -> Result<Response, Problem> {
    let wish = Wish::read(&view.query, &state, view.caller.engine.now())?;
    let found = search::find(&view.caller.engine, &wish).await?;
    let kinds = view.caller.engine.all_kinds().await?;
    let now = view.caller.engine.now();
    let content = html! {
        h1 { "Jobs" }
        (wish.form(&view, &kinds))
        section #list data-live aria-label="Matching jobs" {
            @if let Some(note) = &found.note { p.soft { (note) } }
            @if found.jobs.is_empty() {
                (nothing(&wish))
            } @else {
                (table(&view, &wish, &found, now))
            }
        }
    };
    Ok(view.page("Jobs", Place::Jobs, &content))
}

fn nothing(wish: &Wish) -> Markup {
    if wish.is_everything() {
        return empty(
            "There are no jobs yet. Submit one here, or from a shell:",
            "longhaul submit demo '{\"steps\": 3, \"sleep\": \"2s\"}' --wait",
        );
    }
    html! { div.empty { p { "No job matches. " a href="/ui/jobs" { "Show all jobs" } } } }
}

fn table(view: &View<Read>, wish: &Wish, found: &Found, now: Timestamp) -> Markup {
    let may_change = view.may::<Control>();
    html! {
        form #bulk method="post" {
            // Enter in a field presses the first button that there is, also one of a question that is
            // not shown. This one does nothing.
            button formmethod="dialog" hidden tabindex="-1" {}
            (parts::token(&view.session))
            input type="hidden" name="filter" value=(wish.query());
            @if may_change { (bulk::bar(view, wish)) }
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
                            th { "Accepted" } th.wide { "Took" } th { "What happens" }
                        }
                    }
                    tbody { @for job in &found.jobs { (row(view, job, may_change, now)) } }
                }
            }
        }
        (pages(view, wish, found))
    }
}

fn row(view: &View<Read>, job: &Job, may_change: bool, now: Timestamp) -> Markup {
    let id = job.id.to_string();
    let url = view.link(&format!("/ui/jobs/{id}"), &[]);
    html! {
        tr data-row=(url) {
            @if may_change {
                td.tick {
                    input type="checkbox" name="job" value=(id) aria-label=(format!("Select {id}"));
                }
            }
            td { a.id href=(url) { (id) } (labels(job)) }
            td { (job.kind.as_str()) }
            td.wide { (job.queue.as_str()) }
            td {
                (status(job.status))
                @if let Some(phase) = &job.phase { span.phase { (cut(phase, 40)) } }
            }
            td.wide { (job.attempt) " of " (job.max_attempts) }
            td { (time(job.created_at)) }
            td.wide { (lasted(job, now)) }
            td.said { (said(job, now)) }
        }
    }
}

fn labels(job: &Job) -> Markup {
    html! {
        @if !job.labels.is_empty() {
            span.labels {
                @for (name, value) in job.labels.iter().take(4) {
                    span.label { (cut(name, 40)) "=" (cut(value, 40)) }
                }
                @if job.labels.len() > 4 { span.soft { "and " (job.labels.len() - 4) " more" } }
            }
        }
    }
}

/// From its first attempt on, until its end or now.
pub(super) fn lasted(job: &Job, now: Timestamp) -> String {
    let Some(started_at) = job.started_at else { return "–".to_owned() };
    took(job.completed_at.unwrap_or(now).since(started_at))
}

/// The latest that is known of a job, in a line.
fn said(job: &Job, now: Timestamp) -> Markup {
    if let Some(error) = job.error.as_ref().filter(|_| job.status != Status::Completed) {
        return html! {
            span.error-text { (cut(&error.message, SAID_CHARS_MAX)) }
            @if job.status == Status::Pending && job.run_at > now {
                span.soft { " Tried again in " (took(job.run_at.since(now))) "." }
            }
        };
    }
    if let Some(progress) = job.progress.as_ref().filter(|_| !job.status.is_terminal()) {
        return parts::progress(progress);
    }
    if job.status == Status::Pending && job.run_at > now {
        return html! { span.soft { "Due in " (took(job.run_at.since(now))) } };
    }
    html! {}
}

fn pages(view: &View<Read>, wish: &Wish, found: &Found) -> Markup {
    let query = wish.pairs();
    let query: Vec<(&str, &str)> =
        query.iter().map(|(name, value)| (*name, value.as_str())).collect();
    html! {
        nav.pages aria-label="Pages of jobs" {
            @if wish.is_later() { a href=(view.link("/ui/jobs", &query)) { "Newest" } }
            @if let Some(next) = found.next {
                @let cursor = cursor(next);
                @let query = [query.as_slice(), &[("cursor", cursor.as_str())]].concat();
                a rel="next" href=(view.link("/ui/jobs", &query)) { "Older" }
            }
        }
    }
}

/// Whether the viewer may put jobs back in line.
fn may_resume(view: &View<Read>) -> bool {
    view.may::<Submit>() && view.may::<Inspect>()
}
