//! Listing jobs.

use axum::Json;
use axum::extract::State;
use longhaul::job::Name;
use longhaul::store::{Filter, PageRequest};
use longhaul::{JobId, Status};
use longhaul_client::wire::{self, JobList};

use crate::api::AppState;
use crate::api::http::caller::Caller;
use crate::api::http::openapi::{ListParams, ListProblems};
use crate::api::http::params::{Pairs, bad, instant, once, twice, unknown, whole};
use crate::problem::{Code, Problem};
use crate::to_wire;

const LIMIT_DEFAULT: usize = 50;

/// What a caller may filter and page by.
const KNOWN: [&str; 7] =
    ["status", "kind", "queue", "label.NAME", "createdAfter", "limit", "cursor"];

/// List jobs, newest first.
///
/// Without their results. Pass `nextCursor` as `cursor` for the next page, with the same filter.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "listJobs", tag = "jobs",
    params(ListParams),
    responses((status = 200, description = "One page of jobs.", body = JobList), ListProblems),
)]
pub(crate) async fn list_jobs(
    State(state): State<AppState>,
    caller: Caller,
    query: Pairs,
) -> Result<Json<JobList>, Problem> {
    let Asked { filter, page } = asked(query, state.settings.list_limit_max)?;
    let found = caller.engine.jobs_page(&filter, &page).await?;
    let jobs = found.jobs.iter().map(|job| to_wire::job_summary(&caller.engine, job)).collect();
    Ok(Json(JobList { jobs, next_cursor: found.next.map(cursor) }))
}

#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) filter: Filter,
    pub(crate) page: PageRequest,
}

pub(crate) fn asked(query: Pairs, limit_max: usize) -> Result<Asked, Problem> {
    let mut filter = Filter::default();
    let mut limit = None;
    let mut before = None;
    for (name, value) in query.0 {
        match name.as_str() {
            "status" => {
                for word in value.split(',') {
                    filter.statuses.push(status(word)?);
                }
            }
            "kind" => once(&mut filter.kind, &name, Name::new(&value).map_err(bad)?)?,
            "queue" => once(&mut filter.queue, &name, Name::new(&value).map_err(bad)?)?,
            "createdAfter" => once(&mut filter.created_after, &name, instant(&name, &value)?)?,
            "limit" => once(&mut limit, &name, page_limit(&value, limit_max)?)?,
            "cursor" => once(&mut before, &name, read_cursor(&value)?)?,
            other => match other.strip_prefix("label.") {
                Some(label) if !label.is_empty() => {
                    if filter.labels.insert(label.to_owned(), value).is_some() {
                        return Err(twice(other));
                    }
                }
                Some(_) | None => return Err(unknown(other, &KNOWN)),
            },
        }
    }
    Ok(Asked {
        filter,
        page: PageRequest { limit: limit.unwrap_or(LIMIT_DEFAULT.min(limit_max)), before },
    })
}

fn status(word: &str) -> Result<Status, Problem> {
    word.trim().parse::<wire::Status>().map(to_wire::status_from).map_err(bad)
}

fn page_limit(text: &str, limit_max: usize) -> Result<usize, Problem> {
    let limit = whole(text)
        .and_then(|limit| usize::try_from(limit).ok())
        .filter(|limit| *limit > 0)
        .ok_or_else(|| bad(format_args!("limit is a number from 1, not {text:?}")))?;
    if limit > limit_max {
        let detail = format!("limit is at most {limit_max} (list_limit_max), not {limit}");
        return Err(Problem::new(Code::Validation, detail));
    }
    Ok(limit)
}

/// A letter that names the form, so that another one can follow, and the last job of the page.
pub(crate) fn cursor(last: JobId) -> String {
    format!("a{last}")
}

pub(crate) fn read_cursor(text: &str) -> Result<JobId, Problem> {
    let last = text.strip_prefix('a').and_then(|id| id.parse().ok());
    last.ok_or_else(|| bad("the cursor is not one that this server gave out"))
}

#[cfg(test)]
mod tests {
    use longhaul::Timestamp;

    use super::*;

    fn read(query: &str) -> Result<Asked, Problem> {
        let uri = format!("/?{query}").parse().unwrap();
        let axum::extract::Query(pairs) = axum::extract::Query::try_from_uri(&uri).unwrap();
        asked(Pairs(pairs), 1_000)
    }

    #[test]
    fn statuses_may_repeat_or_be_listed() {
        let all = [Status::Failed, Status::Running, Status::Pending];
        for query in ["status=failed&status=running,pending", "status=failed,running,pending"] {
            assert_eq!(read(query).unwrap().filter.statuses, all);
        }
    }

    #[test]
    fn cursor_reads_back() {
        let id = JobId::from_parts(Timestamp::from_millis(1_763_000_000_000), 42);
        assert_eq!(read_cursor(&cursor(id)).unwrap(), id);
    }

    #[test]
    fn offsets_may_be_written_with_a_bare_plus() {
        let at = |query| read(query).unwrap().filter.created_after;
        assert_eq!(
            at("createdAfter=2026-01-01T02:00:00+02:00"),
            at("createdAfter=2026-01-01T00:00:00Z")
        );
    }

    #[test]
    fn mistakes_are_named() {
        let refusal = |query| read(query).unwrap_err().detail().to_owned();
        insta::assert_snapshot!(
            [
                "status=done",
                "stauts=failed",
                "label.=x",
                "label.a=1&label.a=2",
                "kind=a&kind=b",
                "kind=a/b",
                "createdAfter=yesterday",
                "limit=0",
                "limit=1001",
                "cursor=garbage",
            ]
            .map(refusal)
            .join("\n"),
            @r#"
            "done" is not a status: one of pending, running, waiting, completed, failed, cancelled is
            there is no parameter "stauts"; did you mean "status"? Known: status, kind, queue, label.NAME, createdAfter, limit, cursor
            there is no parameter "label."; did you mean "label.NAME"? Known: status, kind, queue, label.NAME, createdAfter, limit, cursor
            the parameter "label.a" is given twice
            the parameter "kind" is given twice
            "a/b" is not a name: use a letter or digit, then up to 63 letters, digits, '.', '_' or '-'
            createdAfter "yesterday" is not an RFC 3339 instant
            limit is a number from 1, not "0"
            limit is at most 1000 (list_limit_max), not 1001
            the cursor is not one that this server gave out
            "#
        );
    }
}
