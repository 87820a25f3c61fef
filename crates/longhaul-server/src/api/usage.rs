//! Usage of finished jobs.

mod csv;

use std::collections::BTreeMap;

use axum::Json;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use longhaul::job::{self, Name, hour_of};
use longhaul::{Engine, Timestamp};
use longhaul_client::wire::{Usage, UsageBy, UsageRow, UsageTotal};
use utoipa_axum::routes;

use crate::api::http::caller::{Caller, Inspect};
use crate::api::http::load_shedding::Class;
use crate::api::http::openapi::{ListProblems, UsageParams};
use crate::api::http::params::{Pairs, bad, instant, once, unknown};
use crate::api::http::routes::Routes;
use crate::problem::{Code, Problem, Result};
use crate::to_wire;

/// Longest range of one request: a month of last year and all since.
const DAYS_MAX: u64 = 400;

const PARAMETERS: [&str; 4] = ["from", "to", "by", "format"];

const CSV: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8; header=present");

pub(super) fn router() -> Routes {
    Routes::new().route::<Inspect>(Class::Normal, routes!(get_usage))
}

/// Read the usage of finished jobs.
///
/// Sums by hour, day or month in UTC, and by kind and API key. A job is counted once, when it finishes.
/// Usage is kept for thirteen months, longer than jobs.
#[utoipa::path(
    get, path = "/v1/usage", operation_id = "getUsage", tag = "usage",
    params(UsageParams),
    responses(
        (
            status = 200, description = "Usage.",
            content((Usage = "application/json"), (String = "text/csv")),
        ),
        ListProblems,
    ),
)]
async fn get_usage(caller: Caller<Inspect>, headers: HeaderMap, query: Pairs) -> Result<Response> {
    let UsageQuery { from, to, by, csv } = parse_query(query, &headers, caller.engine.now())?;
    let (rows, total) = summed(&caller.engine, from, to, by).await?;
    let vary = (VARY, HeaderValue::from_static("accept"));
    if csv {
        return Ok(([vary, (CONTENT_TYPE, CSV)], csv::table(&rows)).into_response());
    }
    let (from, to) = (to_wire::instant(hour_of(from)), to_wire::instant(to));
    Ok(([vary], Json(Usage { from, to, by, rows, total })).into_response())
}

/// Sums usage by interval, kind and key, and in total.
pub(crate) async fn summed(
    engine: &Engine,
    from: Timestamp,
    to: Timestamp,
    by: UsageBy,
) -> Result<(Vec<UsageRow>, UsageTotal)> {
    let found = engine.usage(from, to).await?;
    let mut sums: BTreeMap<(Timestamp, Name, Option<String>), job::Usage> = BTreeMap::new();
    let mut total = job::Usage::default();
    for row in found {
        *sums.entry((start(by, row.hour), row.kind, row.key)).or_default() += row.usage;
        total += row.usage;
    }
    Ok((sums.into_iter().map(to_wire).collect(), in_all(total)))
}

#[derive(Debug)]
struct UsageQuery {
    from: Timestamp,
    to: Timestamp,
    by: UsageBy,
    csv: bool,
}

fn parse_query(query: Pairs, headers: &HeaderMap, now: Timestamp) -> Result<UsageQuery> {
    let (mut from, mut to, mut by, mut csv) = (None, None, None, None);
    for (name, value) in query.0 {
        match name.as_str() {
            "from" => once(&mut from, &name, instant(&name, &value)?)?,
            "to" => once(&mut to, &name, instant(&name, &value)?)?,
            "by" => once(&mut by, &name, value.parse::<UsageBy>().map_err(bad)?)?,
            "format" => once(&mut csv, &name, is_csv(&value)?)?,
            other => return Err(unknown(other, &PARAMETERS)),
        }
    }
    let to = to.unwrap_or(now);
    let from = from.unwrap_or_else(|| start(UsageBy::Month, to));
    let refused = |detail: String| Err(Problem::new(Code::Validation, detail));
    if from > to {
        return refused(format!("from must not be after to: {from} is after {to}"));
    }
    if to.since(hour_of(from)).as_secs() > (DAYS_MAX * 24 + 1) * 3_600 {
        return refused(format!("from and to must be at most {DAYS_MAX} days apart"));
    }
    let csv = csv.unwrap_or_else(|| prefers_csv(headers));
    Ok(UsageQuery { from, to, by: by.unwrap_or(UsageBy::Day), csv })
}

fn is_csv(format: &str) -> Result<bool> {
    match format {
        "csv" => Ok(true),
        "json" => Ok(false),
        other => Err(bad(format_args!("unknown format {other:?}: use json or csv"))),
    }
}

/// Returns whether `Accept` names CSV before JSON.
fn prefers_csv(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut types = accepted.split(',').map(|one| one.split(';').next().unwrap_or_default().trim());
    types.find(|one| ["text/csv", "application/json"].contains(one)) == Some("text/csv")
}

/// Rounds an instant down to its hour, day or month.
pub(crate) fn start(by: UsageBy, at: Timestamp) -> Timestamp {
    let text = at.to_string();
    let cut = |chars: usize, rest: &str| {
        let start = text.get(..chars).map(|begin| format!("{begin}{rest}"));
        start.and_then(|start| Timestamp::parse(&start)).unwrap_or(at)
    };
    match by {
        UsageBy::Hour => hour_of(at),
        UsageBy::Day => cut(10, "T00:00:00Z"),
        UsageBy::Month => cut(7, "-01T00:00:00Z"),
    }
}

fn to_wire(
    ((start, kind, key), usage): ((Timestamp, Name, Option<String>), job::Usage),
) -> UsageRow {
    let total = in_all(usage);
    UsageRow {
        start: to_wire::instant(start),
        kind: kind.to_string(),
        key,
        jobs: total.jobs,
        run_seconds: total.run_seconds,
        payload_bytes: total.payload_bytes,
        steps: total.steps,
        prompt_tokens: total.prompt_tokens,
        completion_tokens: total.completion_tokens,
    }
}

fn in_all(usage: job::Usage) -> UsageTotal {
    UsageTotal {
        jobs: usage.jobs,
        run_seconds: std::time::Duration::from_millis(usage.run_ms).as_secs_f64(),
        payload_bytes: usage.payload_bytes,
        steps: usage.steps,
        prompt_tokens: usage.tokens.prompt,
        completion_tokens: usage.tokens.completion,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, accept: &'static str) -> Result<UsageQuery> {
        let uri = format!("/?{query}").parse().unwrap();
        let axum::extract::Query(pairs) = axum::extract::Query::try_from_uri(&uri).unwrap();
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        parse_query(Pairs(pairs), &headers, Timestamp::parse("2026-11-15T10:30:00Z").unwrap())
    }

    #[test]
    fn usage_defaults_to_this_month() {
        let UsageQuery { from, to, by, csv } = read("", "*/*").unwrap();
        assert_eq!(from.to_string(), "2026-11-01T00:00:00.000Z");
        assert_eq!(to.to_string(), "2026-11-15T10:30:00.000Z");
        assert_eq!((by, csv), (UsageBy::Day, false));
    }

    #[test]
    fn format_is_named_or_negotiated() {
        let csv = |query, accept| read(query, accept).unwrap().csv;
        assert!(csv("", "text/csv"));
        assert!(csv("", "text/html, text/csv;q=0.9, application/json;q=0.8"));
        assert!(!csv("", "application/json, text/csv"));
        assert!(!csv("format=json", "text/csv"));
        assert!(csv("format=csv", "application/json"));
    }

    #[test]
    fn hours_days_and_months_begin_where_they_do_in_utc() {
        let at = Timestamp::parse("2026-02-28T23:59:59.999Z").unwrap();
        let starts = [UsageBy::Hour, UsageBy::Day, UsageBy::Month].map(|by| start(by, at));
        insta::assert_snapshot!(starts.map(|at| at.to_string()).join(" "), @"2026-02-28T23:00:00.000Z 2026-02-28T00:00:00.000Z 2026-02-01T00:00:00.000Z");
    }

    #[test]
    fn mistakes_are_named() {
        let refusal = |query| {
            let problem = read(query, "*/*").unwrap_err();
            format!("{} {}", problem.status().as_u16(), problem.detail())
        };
        insta::assert_snapshot!(
            [
                "form=2026-01-01T00:00:00Z",
                "from=yesterday",
                "from=2026-01-01T00:00:00Z&from=2026-01-01T00:00:00Z",
                "by=week",
                "format=xml",
                "from=2026-12-01T00:00:00Z",
                "from=2024-01-01T00:00:00Z",
            ]
            .map(refusal)
            .join("\n"),
            @r#"
        400 unknown parameter "form"; did you mean "format"? Known: from, to, by, format
        400 from "yesterday" is not an RFC 3339 instant
        400 parameter "from" is repeated
        400 "week" is not a period: use hour, day or month
        400 unknown format "xml": use json or csv
        422 from must not be after to: 2026-12-01T00:00:00.000Z is after 2026-11-15T10:30:00.000Z
        422 from and to must be at most 400 days apart
        "#
        );
    }
}
