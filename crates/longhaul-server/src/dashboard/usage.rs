//! What finished jobs used.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::response::Response;
use longhaul::Timestamp;
use longhaul_client::wire::{UsageBy, UsageRow, UsageTotal};
use maud::{Markup, html};

use super::charts::{Column, columns};
use super::layout::Place;
use super::parts::{bytes, count, empty, told, took};
use super::view::View;
use crate::api::http::caller::Inspect;
use crate::api::http::params::bad;
use crate::api::usage;
use crate::problem::Problem;

/// What can be looked at: the name in the address, for people, how far back, and in which steps.
const SPANS: [(&str, &str, Duration, UsageBy, Duration); 3] = [
    ("24h", "last 24 hours", Duration::from_hours(23), UsageBy::Hour, Duration::from_hours(1)),
    ("30d", "last 30 days", Duration::from_hours(24 * 29), UsageBy::Day, Duration::from_hours(24)),
    ("90d", "last 90 days", Duration::from_hours(24 * 89), UsageBy::Day, Duration::from_hours(24)),
];

pub(super) async fn show(view: View<Inspect>) -> Result<Response, Problem> {
    let asked = view.asked("span").unwrap_or("30d");
    let span = SPANS.iter().find(|(name, ..)| *name == asked);
    let Some(&(name, said, back, by, step)) = span else {
        return Err(bad(format_args!("span is one of 24h, 30d, 90d, not {asked:?}")));
    };
    let to = view.caller.engine.now();
    let from = usage::start(by, before(to, back));
    let (rows, total) = usage::summed(&view.caller.engine, from, to, by).await?;
    let starts = starts(from, to, step);
    let content = html! {
        h1 { "Usage" }
        nav.tabs aria-label="Span" {
            @for (other, said, ..) in SPANS {
                @if other == name {
                    a href=(view.link("/ui/usage", &[("span", other)])) aria-current="page" {
                        (said)
                    }
                }
                @else { a href=(view.link("/ui/usage", &[("span", other)])) { (said) } }
            }
        }
        @if total.jobs == 0 {
            (empty(
                "No job has ended in this time. Each is counted once, when it ends; the same is told by:",
                "longhaul usage",
            ))
        } @else {
            (totals(&total))
            section.charts aria-label=(format!("The {said}")) {
                div {
                    h2 { "Jobs" }
                    (chart(&rows, &starts, by, "Jobs that ended", |row| row.jobs, count))
                }
                div {
                    h2 { "Run time" }
                    (chart(&rows, &starts, by, "Run time", ran_ms, |ms| took(Duration::from_millis(ms))))
                }
            }
            (table(&rows))
        }
    };
    Ok(view.page("Usage", Place::Usage, &content))
}

fn before(at: Timestamp, span: Duration) -> Timestamp {
    Timestamp::from_millis(
        at.as_millis().saturating_sub(i64::try_from(span.as_millis()).unwrap_or(0)),
    )
}

fn starts(from: Timestamp, to: Timestamp, step: Duration) -> Vec<Timestamp> {
    let mut starts = vec![from];
    while let Some(last) = starts.last().copied().filter(|last| last.after(step) <= to) {
        starts.push(last.after(step));
    }
    starts
}

fn run_time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn ran_ms(row: &UsageRow) -> u64 {
    u64::try_from(run_time(row.run_seconds).as_millis()).unwrap_or(u64::MAX)
}

fn chart(
    rows: &[UsageRow],
    starts: &[Timestamp],
    by: UsageBy,
    what: &str,
    of: impl Fn(&UsageRow) -> u64,
    unit: impl Fn(u64) -> String + Copy,
) -> Markup {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for row in rows {
        *sums.entry(row.start.as_str()).or_default() += of(row);
    }
    let all: u64 = sums.values().sum();
    let column = |start: &Timestamp| {
        let text = start.to_string();
        let value = sums.get(text.as_str()).copied().unwrap_or(0);
        let chars = if by == UsageBy::Hour { 16 } else { 10 };
        let title = format!(
            "{} UTC: {}",
            text.get(..chars).unwrap_or(&text).replace('T', " "),
            unit(value)
        );
        Column { title, parts: vec![("completed", value)] }
    };
    let those: Vec<Column> = starts.iter().map(column).collect();
    let said = format!("{what} by {by}, {} in all", unit(all));
    columns(&those, &said, ("", "now"), unit)
}

fn totals(total: &UsageTotal) -> Markup {
    html! {
        ul.tiles aria-label="In all" {
            li { strong { (count(total.jobs)) } "jobs" }
            li { strong { (took(run_time(total.run_seconds))) } "run time" }
            li { strong { (count(total.steps)) } "steps" }
            li { strong { (bytes(total.payload_bytes)) } "of payloads" }
            @if total.prompt_tokens + total.completion_tokens > 0 {
                li { strong { (count(total.prompt_tokens)) } "prompt tokens" }
                li { strong { (count(total.completion_tokens)) } "completion tokens" }
            }
        }
    }
}

fn table(rows: &[UsageRow]) -> Markup {
    html! {
        section aria-labelledby="rows-title" {
            h2 #rows-title { "By kind and key" }
            div.scroll tabindex="0" role="group" aria-label="Usage by kind and key" {
                table {
                    thead {
                        tr {
                            th { "From" } th { "Kind" } th { "Key" } th { "Jobs" } th { "Run time" }
                            th { "Steps" } th { "Payloads" }
                        }
                    }
                    tbody {
                        @for row in rows.iter().rev().take(500) {
                            tr {
                                td { (told(row.start.as_str())) }
                                td { (row.kind) }
                                td {
                                    @if let Some(key) = &row.key {
                                        code { (key) }
                                    } @else {
                                        span.soft { "none" }
                                    }
                                }
                                td { (count(row.jobs)) }
                                td { (took(run_time(row.run_seconds))) }
                                td { (count(row.steps)) }
                                td { (bytes(row.payload_bytes)) }
                            }
                        }
                    }
                }
            }
            @if rows.len() > 500 { p.soft { "The newest 500 of " (rows.len()) " rows are shown." } }
        }
    }
}
