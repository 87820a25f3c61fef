//! Overview page: problems that need attention, status counts, charts, queues and replicas.

mod attention;
mod last_hour;

use axum::response::Response;
use longhaul::store::{Filter, PageRequest};
use longhaul::{Engine, Timestamp};
use longhaul_client::wire::{Queue, Replica, Status};
use maud::{Markup, html};

use super::components::{
    ACTIONS, count, duration, empty_state, post_button, status, table, time, timestamp,
};
use super::form::Form;
use super::layout::Section;
use super::page_context::PageContext;
use crate::api::http::caller::{Control, Inspect, Read};
use crate::api::http::params::NamePath;
use crate::api::{queues, replicas};
use crate::problem::Result;
use last_hour::LastHour;

/// Limit when counting waiting jobs and failed deliveries.
const COUNTED_MAX: usize = 1_000;

/// Data of the overview page.
struct OverviewData {
    queues: Vec<Queue>,
    replicas: Vec<Replica>,
    waiting: usize,
    failed_deliveries: usize,
    /// None if the caller may not read jobs.
    hour: Option<LastHour>,
    now: Timestamp,
}

pub(super) async fn show(ctx: PageContext<Inspect>) -> Result<Response> {
    let engine = &ctx.caller.engine;
    let data = OverviewData {
        queues: queues::list(engine).await?,
        replicas: replicas::list(&ctx.caller).await?,
        waiting: count_jobs(engine, longhaul::Status::Waiting).await?,
        failed_deliveries: count_jobs(&engine.outbox(), longhaul::Status::Failed).await?,
        hour: if ctx.may::<Read>() { Some(LastHour::read(&ctx.caller).await?) } else { None },
        now: engine.now(),
    };
    Ok(ctx.page("Longhaul", Section::Overview, &write(&ctx, &data)))
}

async fn count_jobs(engine: &Engine, status: longhaul::Status) -> Result<usize> {
    let filter = Filter { statuses: vec![status], ..Filter::default() };
    let page = PageRequest::new(COUNTED_MAX, None);
    Ok(engine.jobs_page(&filter, &page).await?.jobs.len())
}

fn write(ctx: &PageContext<Inspect>, data: &OverviewData) -> Markup {
    let is_new = data.queues.is_empty()
        && data.hour.as_ref().is_some_and(LastHour::is_empty)
        && data.waiting == 0;
    html! {
        h1 { "Overview" }
        div #overview data-live {
            @if is_new {
                (empty_state(
                    "No jobs yet. Submit one and watch it run:",
                    "longhaul submit demo '{\"steps\": 3, \"sleep\": \"2s\"}' --wait",
                ))
            }
            (attention::show(ctx, data))
            (statuses(ctx, data))
            @if let Some(hour) = &data.hour { (hour.charts()) }
            (queue_table(ctx, data))
            @if let Some(hour) = &data.hour { (hour.failing(ctx)) }
            (replica_table(data))
        }
    }
}

fn statuses(ctx: &PageContext<Inspect>, data: &OverviewData) -> Markup {
    let sum = |of: fn(&Queue) -> u64| data.queues.iter().map(of).sum::<u64>();
    let waiting = u64::try_from(data.waiting).unwrap_or(u64::MAX);
    let now = [
        (Status::Pending, sum(|queue| queue.pending)),
        (Status::Running, sum(|queue| queue.running)),
        (Status::Waiting, waiting),
    ];
    let hour = data.hour.as_ref();
    let link = |word: &str| ctx.link("/ui/jobs", &[("status", word)]);
    let lately = |word: &str| ctx.link("/ui/jobs", &[("status", word), ("since", "1h")]);
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
            @if let Some(note) = hour.and_then(LastHour::note) { p.soft { (note) } }
        }
    }
}

fn tile(url: &str, word: Status, number: u64, when: &str) -> Markup {
    html! {
        li { a href=(url) { strong { (count(number)) } (status(word)) span.soft { (when) } } }
    }
}

fn queue_table(ctx: &PageContext<Inspect>, data: &OverviewData) -> Markup {
    let may_pause = ctx.may::<Control>();
    html! {
        section aria-labelledby="queues-title" {
            h2 #queues-title { "Queues" }
            @if data.queues.is_empty() {
                p.soft { "No queue has unfinished jobs or is paused." }
            } @else {
                (table(
                    "Queues",
                    &["Queue", "Pending", "Oldest pending", "Running", "Limits", ACTIONS],
                    data.queues.iter().map(|queue| queue_row(ctx, queue, data.now, may_pause)),
                ))
            }
        }
    }
}

fn queue_row(ctx: &PageContext<Inspect>, queue: &Queue, now: Timestamp, may_pause: bool) -> Markup {
    let (change, verb) = if queue.paused { ("resume", "Resume") } else { ("pause", "Pause") };
    let action = ctx.link(&format!("/ui/queues/{}/{change}", queue.name), &[]);
    let label = html! { (verb) span.visually-hidden { " " (queue.name) } };
    html! {
        tr {
            td {
                a href=(ctx.link("/ui/jobs", &[("queue", &queue.name)])) { (queue.name) }
                @if queue.paused { " " span.badge { "Paused" } }
            }
            td { (count(queue.pending)) }
            td {
                @if let Some(at) = &queue.oldest_due_at { (duration(now.since(timestamp(at)))) }
                @else { span.soft { "–" } }
            }
            td { (count(queue.running)) @if let Some(max) = queue.running_max { " of " (count(u64::from(max))) } }
            td { @if let Some(rate) = &queue.rate { (rate) } @else { span.soft { "–" } } }
            td {
                @if may_pause { (post_button(&ctx.session, &action, label)) }
            }
        }
    }
}

fn replica_table(data: &OverviewData) -> Markup {
    html! {
        section aria-labelledby="replicas-title" {
            h2 #replicas-title { "Replicas" }
            (table(
                "Replicas",
                &["Replica", "Role", "Version", "Running", "Host", "Last heartbeat"],
                data.replicas.iter().map(replica_row),
            ))
        }
    }
}

fn replica_row(replica: &Replica) -> Markup {
    html! {
        tr {
            td { (replica.name) @if !replica.alive { " " span.badge { "Unresponsive" } } }
            td { (replica.role) }
            td { (replica.version) }
            td { (replica.running) " of " (replica.concurrency) }
            td { (replica.host.as_deref().unwrap_or("–")) }
            td { (time(&replica.seen_at)) }
        }
    }
}

pub(super) async fn pause(
    ctx: PageContext<Control>,
    NamePath(name): NamePath,
    _form: Form,
) -> Result<Response> {
    queues::pause(&ctx.caller, &name).await?;
    Ok(ctx.done("/", "pause"))
}

pub(super) async fn resume(
    ctx: PageContext<Control>,
    NamePath(name): NamePath,
    _form: Form,
) -> Result<Response> {
    queues::resume(&ctx.caller, &name).await?;
    Ok(ctx.done("/", "go-on"))
}
