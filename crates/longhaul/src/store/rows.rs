//! Rows that both stores read, and the parameters of the lists that both answer.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

#[cfg(feature = "server")]
use super::accounts::{ApiKey, AuditEntry, KeyDigest, Tenant};
use super::columns::{FromRow, ReadColumns, from_columns, limit};
#[cfg(feature = "server")]
use super::endpoints::Endpoint;
use super::limits::LimitCounter;
use super::stored_job::StoredJob;
use super::{
    Blob, BlobRef, Filter, Heartbeat, JobVersion, PageRequest, QueueState, QueueTotal, ReplicaState,
};
use crate::job::{
    Event, Job, Name, PreviousState, Retention, Status, Step, Timestamp, TokenBucket, Tokens,
    Usage, UsageMeter, UsageRow,
};

from_columns! {
    Job {
        tenant, id, kind, queue, status, phase, priority, attempt, max_attempts, progress, labels, version,
        idempotency_key, created_at, run_at, started_at, completed_at, expires_at, error, cancel_requested_at,
        timeout, code_version, forked_from, parent_id, has_payload, artifacts,
    }
    Retention { completed, failed }
    Step { name, position, output, alone, attempt, started_at, completed_at }
    QueueState { name, paused, pending, running, oldest_due_at }
    QueueTotal { name, paused, pending, running, oldest_due_at }
    Usage { jobs, run_ms, payload_bytes, steps, tokens }
    Tokens { prompt, completion }
    Blob {
        role, path, name, content_type, size, digest, key, stored_at, stored_by, key_destroyed_at, deleted_at,
        deleted_by, failures, failure,
    }
    BlobRef { tenant, job, path }
}

#[cfg(feature = "server")]
from_columns! {
    Tenant { id, name, subscription, inactive_since, limits, billing_id, billed_at, created_at }
    ApiKey {
        id, tenant, name, scopes, digest, created_at, expires_at, revoked_at, last_used_at, requests_per_s,
        rotated_from,
    }
    KeyDigest { server_key, bytes }
    AuditEntry { id, at, tenant, actor, action, target, detail, request_id }
    Endpoint {
        tenant, id, url, description, events, full, enabled, disabled_reason, sealed_secret, former_secret,
        created_at, changed_at,
    }
}

/// A job and the store's own columns, without usage meter and webhook.
impl FromRow for StoredJob {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let job: Job = columns.get()?;
        Ok(Self {
            before: Some(PreviousState::of(&job)),
            job,
            attempt_base: columns.get()?,
            charge: columns.get()?,
            epoch: columns.get()?,
            replica: columns.get()?,
            lease_until: columns.get()?,
            retention: columns.get()?,
            tally: UsageMeter::default(),
            ended: false,
            webhook: None,
            events: Vec::new(),
        })
    }
}

/// Reads the usage meter of a job that was last claimed at `claimed_at`.
pub(super) fn usage_meter<C: ReadColumns>(
    columns: &mut C,
    claimed_at: Option<Timestamp>,
) -> Result<UsageMeter, C::Error> {
    Ok(UsageMeter {
        key: columns.get()?,
        claimed_at,
        run_ms: columns.get()?,
        payload_bytes: columns.get()?,
        metered: columns.get()?,
        metered_steps: columns.get()?,
        tokens: Tokens::default(),
    })
}

/// `None` if the job does not exist.
impl FromRow for Option<JobVersion> {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let (version, status, cancel_requested) = columns.get()?;
        let version = Option::zip(version, status);
        Ok(version.map(|(version, status)| JobVersion { version, status, cancel_requested }))
    }
}

impl FromRow for UsageRow {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let (hour, kind, key): (_, _, String) = columns.get()?;
        let key = Some(key).filter(|key| !key.is_empty());
        Ok(Self { hour, kind, key, usage: columns.get()? })
    }
}

impl FromRow for LimitCounter {
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let (running, parts, as_of): (_, _, Option<Timestamp>) = columns.get()?;
        Ok(Self { running, bucket: as_of.map(|as_of| TokenBucket { parts, as_of }) })
    }
}

impl FromRow for ReplicaState {
    /// Reads a replica as dead; [`with_liveness`] compares it with the time.
    fn read<C: ReadColumns>(columns: &mut C) -> Result<Self, C::Error> {
        let heartbeat = Heartbeat {
            replica: columns.get()?,
            run: columns.get::<i64>()?.cast_unsigned(),
            role: columns.get()?,
            version: columns.get()?,
            host: columns.get()?,
            pid: columns.get()?,
            process: columns.get()?,
            kinds: columns.get()?,
            running: columns.get()?,
            concurrency: columns.get()?,
            silent_after: columns.get()?,
        };
        let (started_at, seen_at) = columns.get()?;
        Ok(Self { heartbeat, started_at, seen_at, alive: false })
    }
}

/// Marks the replicas that are alive at `now`.
pub(super) fn with_liveness(mut replicas: Vec<ReplicaState>, now: Timestamp) -> Vec<ReplicaState> {
    for replica in &mut replicas {
        replica.alive = replica.heartbeat.is_alive(replica.seen_at, now);
    }
    replicas
}

/// Decodes a history, one JSON event per line. An unreadable event is skipped, so that it does not hide the job.
pub(super) fn history(lines: &str, job: &Job) -> Vec<Event> {
    let parsed = lines.lines().map(serde_json::from_str);
    let events: Vec<Event> = parsed.filter_map(Result::ok).collect();
    let unreadable = lines.lines().count() - events.len();
    if unreadable > 0 {
        tracing::warn!(job.id = %job.id, tenant.id = %job.tenant, unreadable, "skipped unreadable events of a job's history");
    }
    events
}

/// Sorts after every job id.
const AFTER_ALL_JOBS: &str = "~";
/// Sorts after every id of an audit entry.
pub(super) const AFTER_ALL_ENTRIES: &str = "\u{10ffff}";

/// The parameters that all statements for lists of jobs begin with, after the tenant.
pub(super) struct ListQueryParams<'a> {
    pub(super) before: String,
    pub(super) kind: Option<&'a str>,
    pub(super) queue: Option<&'a str>,
    pub(super) created_after: Option<i64>,
    /// JSON object.
    pub(super) labels: Option<String>,
    /// One more than the page may have, to detect another page.
    pub(super) limit: i64,
    /// Id of the last job to examine; empty for all.
    pub(super) end: String,
}

impl<'a> ListQueryParams<'a> {
    pub(super) fn new(filter: &'a Filter, page: &PageRequest) -> Self {
        let labels = filter.labels.iter();
        let labels: Map<String, Value> =
            labels.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        Self {
            before: page.before.map_or_else(|| AFTER_ALL_JOBS.to_owned(), |id| id.to_string()),
            kind: filter.kind.as_ref().map(Name::as_str),
            queue: filter.queue.as_ref().map(Name::as_str),
            created_after: filter.created_after.map(Timestamp::as_millis),
            labels: (!labels.is_empty()).then(|| Value::Object(labels).to_string()),
            limit: limit(page.jobs_max().saturating_add(1)),
            end: String::new(),
        }
    }
}

/// Returns how many jobs of each listed status a page examines before the last one. `None` if every examined job matches,
/// because then the page's limit is enough.
pub(super) fn examined_before_end(filter: &Filter, page: &PageRequest) -> Option<i64> {
    let Filter { statuses, kind, queue, labels, created_after, parent } = filter;
    let matches_all = kind.is_none()
        && queue.is_none()
        && labels.is_empty()
        && created_after.is_none()
        && (parent.is_none() || statuses.is_empty());
    let of_each_status = page.examined_max / listed_statuses(filter).len().max(1);
    (!matches_all).then(|| limit(of_each_status.saturating_sub(1)))
}

/// Returns the statuses to list one after the other: those of the filter, each once, or `None` for any.
pub(super) fn listed_statuses(filter: &Filter) -> Vec<Option<Status>> {
    let statuses: BTreeSet<Status> = filter.statuses.iter().copied().collect();
    if statuses.is_empty() { vec![None] } else { statuses.into_iter().map(Some).collect() }
}
