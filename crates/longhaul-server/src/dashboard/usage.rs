//! Usage page: resources that finished jobs consumed.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::response::Response;
use longhaul::Timestamp;
use longhaul_client::wire::{UsageBy, UsageRow, UsageTotal};
use maud::{Markup, html};

use super::charts::{Column, columns};
use super::components::{bytes, count, count_of, duration, empty_state, tab, table, time};
use super::layout::Section;
use super::page_context::PageContext;
use crate::api::http::caller::Inspect;
use crate::api::http::params::bad;
use crate::api::usage;
use crate::problem::Result;

/// Limit of listed rows.
const ROWS_MAX: usize = 500;
/// Selectable spans: parameter, label, length without the current interval, grouping and interval.
const SPANS: [(&str, &str, Duration, UsageBy, Duration); 3] = [
    ("24h", "Last 24 hours", Duration::from_hours(23), UsageBy::Hour, Duration::from_hours(1)),
    ("30d", "Last 30 days", Duration::from_hours(24 * 29), UsageBy::Day, Duration::from_hours(24)),
    ("90d", "Last 90 days", Duration::from_hours(24 * 89), UsageBy::Day, Duration::from_hours(24)),
];

pub(super) async fn show(ctx: PageContext<Inspect>) -> Result<Response> {
    let span = ctx.param("span").unwrap_or("30d");
    let Some(&(name, label, back, by, step)) = SPANS.iter().find(|(name, ..)| *name == span) else {
        return Err(bad(format_args!("span must be 24h, 30d or 90d, not {span:?}")));
    };
    let to = ctx.caller.engine.now();
    let from = usage::start(by, to.before(back));
    let (rows, total) = usage::summed(&ctx.caller.engine, from, to, by).await?;
    let starts = starts(from, to, step);
    let content = html! {
        h1 { "Usage" }
        nav.tabs aria-label="Span" {
            @for (other, label, ..) in SPANS {
                (tab(&ctx.link("/ui/usage", &[("span", other)]), label, other == name))
            }
        }
        @if total.jobs == 0 {
            (empty_state(
                "No job finished in this time. Jobs count when they finish. On the command line:",
                "longhaul usage",
            ))
        } @else {
            (totals(&total))
            section.charts aria-label=(label) {
                div {
                    h2 { "Jobs" }
                    (chart(&rows, &starts, by, "Finished jobs", |row| row.jobs, count))
                }
                div {
                    h2 { "Run time" }
                    (chart(&rows, &starts, by, "Run time", run_ms, |ms| duration(Duration::from_millis(ms))))
                }
            }
            (usage_table(&rows))
        }
    };
    Ok(ctx.page("Usage", Section::Usage, &content))
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

fn run_ms(row: &UsageRow) -> u64 {
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
    let chart_columns: Vec<Column> = starts.iter().map(column).collect();
    let label = format!("{what} by {by}, {} in total", unit(all));
    columns(&chart_columns, &label, ("", "now"), unit)
}

fn totals(total: &UsageTotal) -> Markup {
    html! {
        ul.tiles aria-label="Total" {
            li { strong { (count(total.jobs)) } "jobs" }
            li { strong { (duration(run_time(total.run_seconds))) } "run time" }
            li { strong { (count(total.steps)) } "steps" }
            li { strong { (bytes(total.payload_bytes)) } "payloads" }
            @if total.prompt_tokens + total.completion_tokens > 0 {
                li { strong { (count(total.prompt_tokens)) } "prompt tokens" }
                li { strong { (count(total.completion_tokens)) } "completion tokens" }
            }
        }
    }
}

fn usage_table(rows: &[UsageRow]) -> Markup {
    html! {
        section aria-labelledby="rows-title" {
            h2 #rows-title { "By kind and key" }
            (table(
                "Usage by kind and key",
                &["From", "Kind", "Key", "Jobs", "Run time", "Steps", "Payloads"],
                rows.iter().rev().take(ROWS_MAX).map(usage_row),
            ))
            @if rows.len() > ROWS_MAX {
                p.soft { "Showing the newest " (ROWS_MAX) " of " (count_of(rows.len())) " rows." }
            }
        }
    }
}

fn usage_row(row: &UsageRow) -> Markup {
    html! {
        tr {
            td { (time(&row.start)) }
            td { (row.kind) }
            td { @if let Some(key) = &row.key { code { (key) } } @else { span.soft { "None" } } }
            td { (count(row.jobs)) }
            td { (duration(run_time(row.run_seconds))) }
            td { (count(row.steps)) }
            td { (bytes(row.payload_bytes)) }
        }
    }
}
