//! A job's history: the events that are stored, and those that follow from other columns.

use crate::job::{Event, Job, Status, Timestamp};
use crate::store::rows;
use crate::store::sqlite::connection::columns::to_json;

/// Size in bytes above which a history is cut to [`HISTORY_KEPT`] before events are appended.
const HISTORY_MAX: usize = 256 * 1024;
/// Maximum size in bytes of a cut history. Whole lines are kept, the newest ones.
const HISTORY_KEPT: usize = 128 * 1024;

/// The events of a job that are not stored, because they follow from other columns.
#[derive(Debug, Clone)]
pub(crate) struct DerivedEvents {
    /// The job's version in `jobs`: that before the last claim.
    settled_version: u64,
    /// Creation and due time of a job that has had no attempt yet.
    acceptance: (Timestamp, Timestamp),
    /// The event of the last claim, of a job that is running or finished in an attempt.
    claim: Option<Event>,
    /// The final event of a finished job.
    end: Option<Event>,
}

impl DerivedEvents {
    /// Derives the events of a job that was read with its version in `jobs`, and with the replica and the time of
    /// its last claim if it is running or finished in an attempt.
    pub(crate) fn of(
        job: &Job,
        settled_version: u64,
        replica: Option<&str>,
        claimed_at: Option<Timestamp>,
    ) -> Self {
        let claim = claimed_at.map(|at| Event {
            version: settled_version + 1,
            at,
            status: Status::Running,
            attempt: job.attempt,
            phase: None,
            replica: replica.map(str::to_owned),
            run_at: None,
            error: None,
        });
        let end = job.completed_at.map(|at| end_event(job, replica.map(str::to_owned), at));
        Self { settled_version, acceptance: (job.created_at, job.run_at), claim, end }
    }

    pub(crate) fn settled_version(&self) -> u64 {
        self.settled_version
    }

    /// Returns the event of the last claim, if the job is running or finished in an attempt.
    pub(crate) fn claim(&self) -> Option<&Event> {
        self.claim.as_ref()
    }

    /// Returns all events, one per line: those before the last claim, the claim, and the events since.
    pub(crate) fn lines(
        &self,
        settled: Option<&str>,
        since: Option<&str>,
    ) -> rusqlite::Result<String> {
        let mut lines = match settled {
            Some(lines) => lines.to_owned(),
            None => to_json(&self.acceptance())?,
        };
        if let Some(claim) = &self.claim {
            push_line(&mut lines, &to_json(claim)?);
        }
        match (since, &self.end) {
            (Some(since), _) => push_line(&mut lines, since),
            (None, Some(end)) => push_line(&mut lines, &to_json(end)?),
            (None, None) => {}
        }
        Ok(lines)
    }

    /// Returns all events, of the same parts.
    pub(crate) fn into_events(
        self,
        job: &Job,
        settled: Option<&str>,
        since: Option<&str>,
    ) -> Vec<Event> {
        let mut events = match settled {
            Some(lines) => rows::history(lines, job),
            None => vec![self.acceptance()],
        };
        events.extend(self.claim);
        match since {
            Some(since) => events.extend(rows::history(since, job)),
            None => events.extend(self.end),
        }
        events
    }

    /// Returns whether the new events of a job that finishes follow from its final state.
    pub(crate) fn is_end(&self, job: &Job, events: &[Event]) -> bool {
        let replica = self.claim.as_ref().and_then(|claim| claim.replica.clone());
        let end = job.completed_at.map(|at| end_event(job, replica, at));
        events.iter().eq(end.iter())
    }

    /// Returns the first event of a job that has had no attempt yet.
    fn acceptance(&self) -> Event {
        let (at, run_at) = self.acceptance;
        Event {
            version: 1,
            at,
            status: Status::Pending,
            attempt: 0,
            phase: None,
            replica: None,
            run_at: Some(run_at),
            error: None,
        }
    }
}

/// Returns the final event of a finished job that was last claimed by `replica`.
fn end_event(job: &Job, replica: Option<String>, at: Timestamp) -> Event {
    Event {
        version: job.version,
        at,
        status: job.status,
        attempt: job.attempt,
        phase: None,
        replica,
        run_at: None,
        error: job.error.clone().filter(|_| job.status == Status::Failed),
    }
}

/// Appends events, one per line, after cutting a history that is too long.
pub(crate) fn append(lines: Option<&str>, events: &[Event]) -> rusqlite::Result<String> {
    let mut lines = cut(lines.unwrap_or_default()).to_owned();
    for event in events {
        push_line(&mut lines, &to_json(event)?);
    }
    Ok(lines)
}

fn push_line(lines: &mut String, line: &str) {
    if !lines.is_empty() && !line.is_empty() {
        lines.push('\n');
    }
    lines.push_str(line);
}

/// Returns the newest whole lines of a history that is too long.
fn cut(lines: &str) -> &str {
    if lines.len() <= HISTORY_MAX {
        return lines;
    }
    let from = lines.len() - HISTORY_KEPT;
    let next_line = lines.as_bytes().iter().skip(from).position(|byte| *byte == b'\n');
    next_line.and_then(|skipped| lines.get(from + skipped + 1..)).unwrap_or_default()
}
