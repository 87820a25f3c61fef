//! `longhaul result`.

use std::path::PathBuf;

use clap::Args;
use longhaul_client::wire::{Job, RawJson, Status};
use serde_json::json;

use crate::cli::commands::jobs::follow::{FollowView, follow};
use crate::cli::output::atomic_file::OutputTarget;
use crate::cli::output::color::Style;
use crate::cli::output::job_line;
use crate::cli::{CliError, CliResult, Exit, Global, Ui};

#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// Job id
    job: String,
    /// Wait for the job to finish
    #[arg(long)]
    wait: bool,
    /// Output file, replaced only when complete, or - for stdout
    #[arg(short, long, value_name = "FILE | -")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(args: &ResultArgs, global: &Global, ui: &mut Ui<'_>) -> CliResult {
    let client = global.client()?;
    let job = client.job(&args.job, None).await?;
    if !args.wait {
        return print(&job, args, ui);
    }
    match follow(job, &client, global, &FollowView::of_waiting(ui), ui).await? {
        Some(job) => print(&job, args, ui),
        None => Ok(Exit::Interrupted),
    }
}

/// Prints only the result.
fn print(job: &Job, args: &ResultArgs, ui: &mut Ui<'_>) -> CliResult {
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

fn write(result: &RawJson, args: &ResultArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    let target = args.output.as_deref().map_or(OutputTarget::Stdout, OutputTarget::named);
    let style = if target.path().is_some() { Style::PLAIN } else { ui.out_style };
    let text = ui.document_text(result, style) + "\n";
    let mut file = target.open()?;
    file.write(text.as_bytes(), ui)?;
    file.finish(ui)
}
