//! `longhaul result`.

use std::path::PathBuf;

use clap::Args;
use longhaul_client::wire::{Job, RawJson, Status};
use serde_json::json;

use crate::cli::commands::jobs::follow::{FollowEnd, FollowView, follow, interrupted};
use crate::cli::output::atomic_file::OutputTarget;
use crate::cli::output::color::Style;
use crate::cli::output::job_line;
use crate::cli::{CliError, Exit, Global, Ui};

#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// The job's id
    job: String,
    /// Wait for the job to end
    #[arg(long)]
    wait: bool,
    /// Write it to this file, which is whole or not there; - for stdout
    #[arg(short, long, value_name = "FILE | -")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(
    args: &ResultArgs,
    global: &Global,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    let client = global.client()?;
    let job = client.job(&args.job, None).await?;
    if !args.wait {
        return print(&job, args, ui);
    }
    match follow(job, &client, &FollowView::of_waiting(ui), ui).await? {
        FollowEnd::Job(job) => print(&job, args, ui),
        FollowEnd::Interrupted => Ok(interrupted(&args.job, global, ui)),
    }
}

/// The result and nothing else on stdout, or in a file.
fn print(job: &Job, args: &ResultArgs, ui: &mut Ui<'_>) -> Result<Exit, CliError> {
    match job.status {
        Status::Completed => write(&job.result.clone().unwrap_or_default(), args, ui)?,
        Status::Failed | Status::Cancelled if ui.json => ui.json_note(&json!({"error": job.error})),
        Status::Failed | Status::Cancelled => ui.note(&job_line::ending(job, ui.err_style)),
        Status::Pending | Status::Running | Status::Waiting => {
            return Err(CliError::NotFinished { id: job.job_id.clone(), status: job.status });
        }
    }
    Ok(Exit::of(job.status))
}

fn write(result: &RawJson, args: &ResultArgs, ui: &mut Ui<'_>) -> Result<(), CliError> {
    let Some(path) = &args.output else { return ui.document(result) };
    match OutputTarget::named(path) {
        OutputTarget::Stdout => ui.document(result),
        target @ (OutputTarget::Over(_) | OutputTarget::New(_)) => {
            let mut saving = target.open()?;
            let text = ui.document_text(result, Style::PLAIN) + "\n";
            saving.write(text.as_bytes(), ui)?;
            saving.finish(ui)
        }
    }
}
