//! Changing jobs: cancel, resume, fork, purge. Every change is recorded in the audit log first.

use longhaul::job::Name;
use longhaul::store::Filter;
use longhaul::{BulkCommand, Job, JobId};
use longhaul_client::wire::JobFilter;

use crate::api::http::caller::{Caller, Control, Submit};
use crate::api::http::params::body_instant;
use crate::problem::{Problem, Result};
use crate::to_wire;

/// Cancels a pending job at once, or asks a running one to stop.
pub(crate) async fn cancel(caller: &Caller<Control>, id: JobId) -> Result<Job> {
    caller.audit("job.cancel", &id.to_string(), String::new()).await?;
    Ok(caller.engine.cancel(id).await?)
}

/// Returns a failed or cancelled job to its queue.
pub(crate) async fn resume(caller: &Caller<Submit>, id: JobId) -> Result<Job> {
    caller.audit("job.resume", &id.to_string(), String::new()).await?;
    Ok(caller.engine.resume(id).await?)
}

/// Submits a copy of a job that keeps the finished steps before `from_step`.
pub(crate) async fn fork(
    caller: &Caller<Submit>,
    id: JobId,
    from_step: Option<&str>,
) -> Result<Job> {
    let from = from_step.map(|step| format!("from {step:?}")).unwrap_or_default();
    caller.audit("job.fork", &id.to_string(), from).await?;
    Ok(caller.engine.fork(id, from_step).await?)
}

/// Deletes a finished job.
pub(crate) async fn purge(caller: &Caller<Control>, id: JobId) -> Result<()> {
    caller.audit("job.purge", &id.to_string(), String::new()).await?;
    Ok(caller.engine.purge(id).await?)
}

/// Applies a command to all matching jobs and returns their number.
pub(crate) async fn bulk<P>(
    caller: &Caller<P>,
    filter: JobFilter,
    command: BulkCommand,
) -> Result<u64> {
    let action = match command {
        BulkCommand::Cancel => "jobs.cancel",
        BulkCommand::Resume => "jobs.resume",
        BulkCommand::Purge => "jobs.purge",
    };
    let detail = serde_json::to_string(&filter).map_err(Problem::internal)?;
    caller.audit(action, "", detail).await?;
    Ok(caller.engine.bulk(&parse_filter(filter)?, command).await?)
}

fn parse_filter(filter: JobFilter) -> Result<Filter> {
    let name = |text: Option<String>| text.map(Name::new).transpose().map_err(Problem::invalid);
    Ok(Filter {
        statuses: filter.status.into_iter().map(to_wire::status_from).collect(),
        kind: name(filter.kind)?,
        queue: name(filter.queue)?,
        labels: filter.labels,
        created_after: body_instant("createdAfter", filter.created_after.as_ref())?,
        parent: None,
    })
}
