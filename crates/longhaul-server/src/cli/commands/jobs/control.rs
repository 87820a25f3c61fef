//! `longhaul cancel`, `resume` and `purge`.

use clap::Args;
use longhaul_client::wire::Job;
use longhaul_client::{Client, ClientError};
use serde_json::json;

use crate::cli::output::color::printable;
use crate::cli::{CliError, Exit, Ui};

#[derive(Debug, Args)]
pub(crate) struct JobIds {
    /// Job ids
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
}

pub(crate) async fn cancel(
    ids: &JobIds,
    client: &Client,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    let mut exit = Exit::Done;
    for id in &ids.jobs {
        exit = report(client.cancel(id).await, exit, ui, print_job)?;
    }
    Ok(exit)
}

pub(crate) async fn resume(
    ids: &JobIds,
    client: &Client,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    let mut exit = Exit::Done;
    for id in &ids.jobs {
        exit = report(client.resume(id).await, exit, ui, print_job)?;
    }
    Ok(exit)
}

pub(crate) async fn purge(
    ids: &JobIds,
    client: &Client,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    let mut exit = Exit::Done;
    for id in &ids.jobs {
        exit = report(client.purge(id).await, exit, ui, |&(), ui| {
            if ui.json {
                ui.value(&json!({"jobId": id, "purged": true}))
            } else {
                ui.line(&format!("{id}  purged"))
            }
        })?;
    }
    Ok(exit)
}

/// Prints the result for one job. A rejection does not stop the remaining jobs; an unreachable
/// server does.
fn report<T>(
    outcome: Result<T, ClientError>,
    exit: Exit,
    ui: &mut Ui<'_>,
    print: impl FnOnce(&T, &mut Ui<'_>) -> Result<(), CliError>,
) -> Result<Exit, CliError> {
    match outcome {
        Ok(value) => print(&value, ui).map(|()| exit),
        Err(error @ ClientError::Refused(_)) => Ok(ui.report(&error.into())),
        Err(error) => Err(error.into()),
    }
}

fn print_job(job: &Job, ui: &mut Ui<'_>) -> Result<(), CliError> {
    if ui.json {
        return ui.value(job);
    }
    let phase = job.phase.as_deref().map(|phase| format!(" · {}", printable(phase)));
    let status = ui.out_style.status(job.status, 0);
    ui.line(&format!("{}  {status}{}", job.job_id, phase.unwrap_or_default()))
}
