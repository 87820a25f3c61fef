//! `longhaul result`.

use clap::Args;
use longhaul_client::wire::{Job, Status};
use serde_json::json;

use super::follow::{Ended, View, follow, interrupted};
use super::{CliError, Exit, Global, Ui, line};

#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// The job's id
    job: String,
    /// Wait for the job to end
    #[arg(long)]
    wait: bool,
}

pub(crate) async fn run(
    args: &ResultArgs,
    global: &Global,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    let client = global.client()?;
    let job = client.job(&args.job, None).await?;
    if !args.wait {
        return print(&job, ui);
    }
    match follow(job, &client, &View::of_waiting(ui), ui).await? {
        Ended::Job(job) => print(&job, ui),
        Ended::Interrupted => Ok(interrupted(&args.job, global, ui)),
    }
}

/// The result and nothing else on stdout.
fn print(job: &Job, ui: &mut Ui<'_>) -> Result<Exit, CliError> {
    match job.status {
        Status::Completed => ui.document(&job.result.clone().unwrap_or_default())?,
        Status::Failed | Status::Cancelled if ui.json => ui.remark(&json!({"error": job.error})),
        Status::Failed | Status::Cancelled => ui.say(&line::ending(job, ui.err_style)),
        Status::Pending | Status::Running | Status::Waiting => {
            return Err(CliError::NotFinished { id: job.job_id.clone(), status: job.status });
        }
    }
    Ok(Exit::of(job.status))
}
