//! `longhaul get`.

use clap::Args;
use longhaul_client::Client;
use longhaul_client::wire::{Job, Step};
use serde::Serialize;

use crate::cli::output::job_details::job_details;
use crate::cli::{CliResult, Ui};

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Job id
    job: String,
    /// Also show finished steps
    #[arg(long)]
    steps: bool,
}

/// Output of `--json`.
#[derive(Serialize)]
struct JobWithSteps {
    #[serde(flatten)]
    job: Job,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<Step>>,
}

pub(crate) async fn run(args: &GetArgs, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    let job = client.job(&args.job, None).await?;
    let steps = if args.steps { Some(client.steps(&args.job).await?) } else { None };
    let mut text = job_details(&job, ui.now(), ui.out_style);
    match steps.as_deref() {
        None => {}
        Some([]) => text.push_str("\n\nno finished steps"),
        Some(steps) => text.extend(["\n\n", &ui.table(steps)]),
    }
    ui.print(&JobWithSteps { job, steps }, &text)
}
