//! `longhaul cancel`, `resume` and `purge`.

use clap::Args;
use longhaul_client::wire::Job;
use longhaul_client::{Client, ClientError};
use serde_json::json;

use crate::cli::output::color::printable;
use crate::cli::{CliError, CliResult, Exit, Ui};

#[derive(Debug, Args)]
pub(crate) struct JobIds {
    /// Job ids
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
}

pub(crate) async fn cancel(ids: &JobIds, client: &Client, ui: &mut Ui<'_>) -> CliResult {
    for_each(ids, ui, async |id, ui| print_job(&client.cancel(id).await?, ui)).await
}

pub(crate) async fn resume(ids: &JobIds, client: &Client, ui: &mut Ui<'_>) -> CliResult {
    for_each(ids, ui, async |id, ui| print_job(&client.resume(id).await?, ui)).await
}

pub(crate) async fn purge(ids: &JobIds, client: &Client, ui: &mut Ui<'_>) -> CliResult {
    for_each(ids, ui, async |id, ui| {
        client.purge(id).await?;
        ui.print(&json!({"jobId": id, "purged": true}), &format!("{id}  purged"))
    })
    .await
}

/// Controls one job after the other. A rejection does not stop the remaining jobs; an unreachable
/// server does.
async fn for_each(
    ids: &JobIds,
    ui: &mut Ui<'_>,
    control: impl AsyncFn(&str, &mut Ui<'_>) -> CliResult<()>,
) -> CliResult {
    let mut exit = Exit::Done;
    for id in &ids.jobs {
        match control(id, ui).await {
            Ok(()) => {}
            Err(error @ CliError::Client(ClientError::Refused(_))) => exit = ui.report(&error),
            Err(error) => return Err(error),
        }
    }
    Ok(exit)
}

fn print_job(job: &Job, ui: &mut Ui<'_>) -> CliResult<()> {
    let phase = job.phase.as_deref().map(|phase| format!(" · {}", printable(phase)));
    let status = ui.out_style.status(job.status, 0);
    ui.print(job, &format!("{}  {status}{}", job.job_id, phase.unwrap_or_default()))
}
