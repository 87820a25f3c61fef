//! Reading jobs as wire types: one representation for the API and the dashboard.

use longhaul::job::{self, Name};
use longhaul::store::{Blob, BlobRole, Filter, PageRequest};
use longhaul::{JobId, Status};
use longhaul_client::wire::{self, Attempt, JobList, Receipt, Step, Stored, StoredRole};

use crate::api::http::caller::Caller;
use crate::api::http::params::{Pairs, bad, instant, once, twice, unknown, whole};
use crate::encoding;
use crate::problem::{Code, Problem, Result};
use crate::to_wire;

const LIMIT_DEFAULT: usize = 50;

const LIST_PARAMETERS: [&str; 7] =
    ["status", "kind", "queue", "label.NAME", "createdAfter", "limit", "cursor"];

/// Pages that [`list_full`] reads, each of which may examine thousands of jobs.
const PAGES_MAX: usize = 10;

/// Returns one page of jobs, newest first, without their results. It may be short or empty and have a next page.
pub(crate) async fn list<P>(caller: &Caller<P>, query: &ListQuery) -> Result<JobList> {
    let page = caller.engine.jobs_page(&query.filter, &query.page).await?;
    let jobs = page.jobs.iter().map(|job| to_wire::job_summary(&caller.engine, job)).collect();
    Ok(JobList { jobs, next_cursor: page.next.map(cursor) })
}

/// Like [`list`], but reads further pages until the limit is reached. Only if very few jobs match is the list shorter and
/// has a next page.
pub(crate) async fn list_full<P>(caller: &Caller<P>, query: &ListQuery) -> Result<JobList> {
    let mut page = query.page;
    let mut all = JobList { jobs: Vec::new(), next_cursor: None };
    for _ in 0..PAGES_MAX {
        page.limit = query.page.limit - all.jobs.len();
        let found = list(caller, &ListQuery { filter: query.filter.clone(), page }).await?;
        all.jobs.extend(found.jobs);
        page.before = found.next_cursor.as_deref().map(parse_cursor).transpose()?;
        all.next_cursor = found.next_cursor;
        if page.before.is_none() || all.jobs.len() >= query.page.limit {
            break;
        }
    }
    Ok(all)
}

/// Returns the finished steps of a job, in their order.
pub(crate) async fn steps(caller: &Caller, id: JobId) -> Result<Vec<Step>> {
    caller.engine.steps(id).await?.into_iter().map(step).collect()
}

/// Returns the attempts of a job, oldest first.
pub(crate) async fn attempts(caller: &Caller, id: JobId) -> Result<Vec<Attempt>> {
    let attempts = caller.engine.job(id).await?.attempts();
    Ok(attempts.into_iter().map(attempt).collect())
}

/// Filter and page of a job list.
#[derive(Debug)]
pub(crate) struct ListQuery {
    pub(crate) filter: Filter,
    pub(crate) page: PageRequest,
}

/// Parses the query parameters of a job list.
pub(crate) fn parse_query(query: Pairs, limit_max: usize) -> Result<ListQuery> {
    let mut filter = Filter::default();
    let mut limit = None;
    let mut before = None;
    for (name, value) in query.0 {
        match name.as_str() {
            "status" => {
                for word in value.split(',') {
                    filter.statuses.push(parse_status(word.trim())?);
                }
            }
            "kind" => once(&mut filter.kind, &name, Name::new(&value).map_err(bad)?)?,
            "queue" => once(&mut filter.queue, &name, Name::new(&value).map_err(bad)?)?,
            "createdAfter" => once(&mut filter.created_after, &name, instant(&name, &value)?)?,
            "limit" => once(&mut limit, &name, page_limit(&value, limit_max)?)?,
            "cursor" => once(&mut before, &name, parse_cursor(&value)?)?,
            other => match other.strip_prefix("label.") {
                Some(label) if !label.is_empty() => {
                    if filter.labels.insert(label.to_owned(), value).is_some() {
                        return Err(twice(other));
                    }
                }
                Some(_) | None => return Err(unknown(other, &LIST_PARAMETERS)),
            },
        }
    }
    Ok(ListQuery {
        filter,
        page: PageRequest::new(limit.unwrap_or(LIMIT_DEFAULT.min(limit_max)), before),
    })
}

pub(crate) fn parse_status(word: &str) -> Result<Status> {
    word.parse::<wire::Status>().map(to_wire::status_from).map_err(bad)
}

fn page_limit(text: &str, limit_max: usize) -> Result<usize> {
    let limit = whole(text)
        .and_then(|limit| usize::try_from(limit).ok())
        .filter(|limit| *limit > 0)
        .ok_or_else(|| bad(format_args!("limit must be a number from 1, not {text:?}")))?;
    if limit > limit_max {
        let detail = format!("limit must be at most {limit_max} (list_limit_max), not {limit}");
        return Err(Problem::new(Code::Validation, detail));
    }
    Ok(limit)
}

/// Encodes the last job of a page. The leading letter is the version of the encoding.
pub(crate) fn cursor(last: JobId) -> String {
    format!("a{last}")
}

pub(crate) fn parse_cursor(text: &str) -> Result<JobId> {
    let last = text.strip_prefix('a').and_then(|id| id.parse().ok());
    last.ok_or_else(|| bad("the cursor is not a nextCursor of this server"))
}

/// Returns the receipt of a job: everything that was stored for it, and what was deleted when.
pub(crate) async fn receipt(caller: &Caller, id: JobId) -> Result<Receipt> {
    let receipt = caller.engine.receipt(id).await?;
    let unreadable = |blob: &Blob| match blob.role {
        BlobRole::Folder => blob.deleted_at.is_some(),
        BlobRole::Payload | BlobRole::Artifact => blob.key.is_none(),
    };
    Ok(Receipt {
        job_id: receipt.job.to_string(),
        job_gone: receipt.gone,
        at: to_wire::instant(receipt.at),
        unreadable: receipt.blobs.iter().all(unreadable),
        deleted: receipt.blobs.iter().all(|blob| blob.deleted_at.is_some()),
        stored: receipt.blobs.into_iter().map(stored).collect(),
    })
}

fn stored(blob: Blob) -> Stored {
    let role = match blob.role {
        BlobRole::Payload => StoredRole::Payload,
        BlobRole::Artifact => StoredRole::Artifact,
        BlobRole::Folder => StoredRole::Folder,
    };
    let is_folder = role == StoredRole::Folder;
    Stored {
        role,
        name: if is_folder { blob.path } else { blob.name },
        content_type: blob.content_type,
        size: (!is_folder).then_some(blob.size),
        sha256: blob.digest.map(|digest| encoding::hex(&digest)),
        stored_at: to_wire::instant(blob.stored_at),
        stored_by: blob.stored_by,
        key_destroyed_at: blob.key_destroyed_at.map(to_wire::instant),
        deleted_at: blob.deleted_at.map(to_wire::instant),
        deleted_by: blob.deleted_by,
        failed_deletions: blob.failures,
    }
}

fn step(step: job::Step) -> Result<Step> {
    Ok(Step {
        output: to_wire::raw(&step.output)?,
        name: step.name,
        position: step.position,
        attempt: step.attempt,
        started_at: to_wire::instant(step.started_at),
        completed_at: to_wire::instant(step.completed_at),
    })
}

pub(super) fn attempt(attempt: job::Attempt) -> Attempt {
    Attempt {
        attempt: attempt.attempt,
        replica: attempt.replica,
        started_at: to_wire::instant(attempt.started_at),
        ended_at: attempt.ended_at.map(to_wire::instant),
        status: attempt.status.map(to_wire::status),
        error: attempt.error.map(to_wire::error),
    }
}

#[cfg(test)]
mod tests {
    use longhaul::Timestamp;

    use super::*;

    fn read(query: &str) -> Result<ListQuery> {
        let uri = format!("/?{query}").parse().unwrap();
        let axum::extract::Query(pairs) = axum::extract::Query::try_from_uri(&uri).unwrap();
        parse_query(Pairs(pairs), 1_000)
    }

    #[test]
    fn status_parameter_may_repeat_or_be_a_list() {
        let all = [Status::Failed, Status::Running, Status::Pending];
        for query in ["status=failed&status=running,pending", "status=failed,running,pending"] {
            assert_eq!(read(query).unwrap().filter.statuses, all);
        }
    }

    #[test]
    fn list_cursor_round_trips() {
        let id = JobId::from_parts(Timestamp::from_millis(1_763_000_000_000), 42);
        assert_eq!(parse_cursor(&cursor(id)).unwrap(), id);
    }

    #[test]
    fn created_after_accepts_an_unencoded_plus() {
        let at = |query| read(query).unwrap().filter.created_after;
        assert_eq!(
            at("createdAfter=2026-01-01T02:00:00+02:00"),
            at("createdAfter=2026-01-01T00:00:00Z")
        );
    }

    #[test]
    fn list_query_errors_name_the_parameter() {
        let detail = |query| read(query).unwrap_err().detail().to_owned();
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
            .map(detail)
            .join("\n"),
            @r#"
        "done" is not a status: use pending, running, waiting, completed, failed or cancelled
        unknown parameter "stauts"; did you mean "status"? Known: status, kind, queue, label.NAME, createdAfter, limit, cursor
        unknown parameter "label."; did you mean "label.NAME"? Known: status, kind, queue, label.NAME, createdAfter, limit, cursor
        parameter "label.a" is repeated
        parameter "kind" is repeated
        "a/b" is not a name: use a letter or digit, then up to 63 letters, digits, '.', '_' or '-'
        createdAfter "yesterday" is not an RFC 3339 instant
        limit must be a number from 1, not "0"
        limit must be at most 1000 (list_limit_max), not 1001
        the cursor is not a nextCursor of this server
        "#
        );
    }
}
