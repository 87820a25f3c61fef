//! The first page: what needs somebody now, and how everything goes.

mod attention;
mod hour;

use axum::extract::State;
use axum::response::Response;
use longhaul::store::{Filter, PageRequest, ReplicaState};
use longhaul::{Status, Timestamp};
use longhaul_client::wire::{Queue, Replica};
use maud::{Markup, html};

use super::form::Form;
use super::layout::Place;
use super::parts::{count, empty, status, token, told, took};
use super::view::View;
use crate::api::http::caller::{Control, Inspect, Read};
use crate::api::http::params::NamePath;
use crate::api::{AppState, queues, replicas};
use crate::problem::Problem;
use hour::Hour;

/// Up to how many waiting jobs and dead letters are counted.
const COUNTED_MAX: usize = 1_000;

/// All that the page is made of.
struct Seen {
    queues: Vec<Queue>,
    replicas: Vec<Replica>,
    waiting: usize,
    dead_letters: usize,
    /// None for those who may see no job.
    hour: Option<Hour>,
    now: Timestamp,
}

pub(super) async fn show(
    State(_): State<AppState>,
    view: View<Inspect>,
) -> Result<Response, Problem> {
    let engine = &view.caller.engine;
    let known: Vec<ReplicaState> = engine.replicas().await?;
    let queues = engine.queues().await?;
    let may_read = view.may::<Read>();
    let seen = Seen {
        queues: queues.iter().map(|queue| queues::shown(engine, queue)).collect(),
        replicas: known.into_iter().map(replicas::shown).collect(),
        waiting: counted(engine, Status::Waiting).await?,
        dead_letters: counted(&engine.outbox(), Status::Failed).await?,
        hour: if may_read { Some(Hour::read(engine).await?) } else { None },
        now: engine.now(),
    };
    Ok(view.page("Longhaul", Place::Overview, &write(&view, &seen)))
}

async fn counted(engine: &longhaul::Engine, status: Status) -> Result<usize, Problem> {
    let filter = Filter { statuses: vec![status], ..Filter::default() };
    let page = PageRequest { limit: COUNTED_MAX, before: None };
    Ok(engine.jobs_page(&filter, &page).await?.jobs.len())
}

fn write(view: &View<Inspect>, seen: &Seen) -> Markup {
    let is_new = seen.queues.is_empty()
        && seen.hour.as_ref().is_some_and(Hour::is_empty)
        && seen.waiting == 0;
    html! {
        h1 { "Overview" }
        div #overview data-live {
            @if is_new {
                (empty(
                    "Nothing has happened here yet. Submit a job, and watch it:",
                    "longhaul submit demo '{\"steps\": 3, \"sleep\": \"2s\"}' --wait",
                ))
            }
            (attention::show(view, seen))
            (statuses(view, seen))
            @if let Some(hour) = &seen.hour { (hour.charts()) }
            (queue_table(view, seen))
            @if let Some(hour) = &seen.hour { (hour.failing(view)) }
            (replica_table(seen))
        }
    }
}

fn statuses(view: &View<Inspect>, seen: &Seen) -> Markup {
    let sum = |of: fn(&Queue) -> u64| seen.queues.iter().map(of).sum::<u64>();
    let waiting = u64::try_from(seen.waiting).unwrap_or(u64::MAX);
    let now = [
        (Status::Pending, sum(|queue| queue.pending)),
        (Status::Running, sum(|queue| queue.running)),
        (Status::Waiting, waiting),
    ];
    let hour = seen.hour.as_ref();
    let link = |word: &str| view.link("/ui/jobs", &[("status", word)]);
    let lately = |word: &str| view.link("/ui/jobs", &[("status", word), ("since", "1h")]);
    html! {
        section aria-labelledby="statuses-title" {
            h2 #statuses-title { "Jobs by status" }
            ul.tiles {
                @for (word, number) in now { (tile(&link(word.as_str()), word, number, "now")) }
                @if let Some(hour) = hour {
                    @for (word, number) in hour.counts() {
                        (tile(&lately(word.as_str()), word, number, "in the last hour"))
                    }
                }
            }
            @if let Some(note) = hour.and_then(Hour::note) { p.soft { (note) } }
        }
    }
}

fn tile(url: &str, word: Status, number: u64, when: &str) -> Markup {
    html! {
        li { a href=(url) { strong { (count(number)) } (status(word)) span.soft { (when) } } }
    }
}

fn queue_table(view: &View<Inspect>, seen: &Seen) -> Markup {
    let may_pause = view.may::<Control>();
    html! {
        section aria-labelledby="queues-title" {
            h2 #queues-title { "Queues" }
            @if seen.queues.is_empty() {
                p.soft { "No queue has unfinished jobs, and none is paused." }
            } @else {
                div.scroll tabindex="0" role="group" aria-label="Queues" {
                    table {
                        thead {
                            tr {
                                th { "Queue" } th { "Pending" } th { "Oldest waits" }
                                th { "Running" } th { "Limits" }
                                th { span.unseen { "What can be done" } }
                            }
                        }
                        tbody {
                            @for queue in &seen.queues {
                                (queue_row(view, queue, seen.now, may_pause))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn queue_row(view: &View<Inspect>, queue: &Queue, now: Timestamp, may_pause: bool) -> Markup {
    let oldest = queue.oldest_due_at.as_ref().and_then(|at| Timestamp::parse(at.as_str()));
    let change = if queue.paused { "resume" } else { "pause" };
    let action = view.link(&format!("/ui/queues/{}/{change}", queue.name), &[]);
    html! {
        tr {
            td {
                a href=(view.link("/ui/jobs", &[("queue", &queue.name)])) { (queue.name) }
                @if queue.paused { " " span.badge { "paused" } }
            }
            td { (count(queue.pending)) }
            td { @if let Some(at) = oldest { (took(now.since(at))) } @else { span.soft { "–" } } }
            td { (count(queue.running)) @if let Some(most) = queue.running_max { " of " (most) } }
            td { @if let Some(rate) = &queue.rate { (rate) } @else { span.soft { "–" } } }
            td {
                @if may_pause {
                    form method="post" action=(action) {
                        (token(&view.session))
                        button {
                            @if queue.paused { "Resume" } @else { "Pause" }
                            span.unseen { " " (queue.name) }
                        }
                    }
                }
            }
        }
    }
}

fn replica_table(seen: &Seen) -> Markup {
    html! {
        section aria-labelledby="replicas-title" {
            h2 #replicas-title { "Replicas" }
            div.scroll tabindex="0" role="group" aria-label="Replicas" {
                table {
                    thead {
                        tr {
                            th { "Replica" } th { "Role" } th { "Version" } th { "Running" }
                            th { "Host" } th { "Last heard of" }
                        }
                    }
                    tbody {
                        @for replica in &seen.replicas {
                            tr {
                                td {
                                    (replica.name)
                                    @if !replica.alive { " " span.badge { "silent" } }
                                }
                                td { (replica.role) }
                                td { (replica.version) }
                                td { (replica.running) " of " (replica.concurrency) }
                                td { (replica.host) }
                                td { (told(replica.seen_at.as_str())) }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(super) async fn pause(
    view: View<Control>,
    NamePath(name): NamePath,
    _form: Form,
) -> Result<Response, Problem> {
    queues::pause(&view.caller, &name).await?;
    Ok(view.done("/", "pause"))
}

pub(super) async fn resume(
    view: View<Control>,
    NamePath(name): NamePath,
    _form: Form,
) -> Result<Response, Problem> {
    queues::resume(&view.caller, &name).await?;
    Ok(view.done("/", "go-on"))
}
