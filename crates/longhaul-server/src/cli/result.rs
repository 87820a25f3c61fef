//! `longhaul result`.

use std::path::PathBuf;

use clap::Args;
use longhaul_client::wire::{Job, RawJson, Status};
use serde_json::json;

use super::follow::{Ended, View, follow, interrupted};
use super::save::Target;
use super::style::Style;
use super::{CliError, Exit, Global, Ui, line};

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
    match follow(job, &client, &View::of_waiting(ui), ui).await? {
        Ended::Job(job) => print(&job, args, ui),
        Ended::Interrupted => Ok(interrupted(&args.job, global, ui)),
    }
}

/// The result and nothing else on stdout, or in a file.
fn print(job: &Job, args: &ResultArgs, ui: &mut Ui<'_>) -> Result<Exit, CliError> {
    match job.status {
        Status::Completed => write(&job.result.clone().unwrap_or_default(), args, ui)?,
        Status::Failed | Status::Cancelled if ui.json => ui.remark(&json!({"error": job.error})),
        Status::Failed | Status::Cancelled => ui.say(&line::ending(job, ui.err_style)),
        Status::Pending | Status::Running | Status::Waiting => {
            return Err(CliError::NotFinished { id: job.job_id.clone(), status: job.status });
        }
    }
    Ok(Exit::of(job.status))
}

fn write(result: &RawJson, args: &ResultArgs, ui: &mut Ui<'_>) -> Result<(), CliError> {
    let Some(path) = &args.output else { return ui.document(result) };
    match Target::named(path) {
        Target::Stdout => ui.document(result),
        target @ (Target::Over(_) | Target::New(_)) => {
            let mut saving = target.open()?;
            let text = ui.document_text(result, Style::PLAIN) + "\n";
            saving.write(text.as_bytes(), ui)?;
            saving.finish(ui)
        }
    }
}
