//! `longhaul fork`.

use clap::Args;

use crate::cli::{CliResult, Global, Ui};

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// Id of the existing job
    job: String,
    /// First step to run again [default: the first unfinished step]
    #[arg(long, value_name = "NAME")]
    from_step: Option<String>,
}

pub(crate) async fn run(args: &ForkArgs, global: &Global, ui: &mut Ui<'_>) -> CliResult<()> {
    let job = global.client()?.fork(&args.job, args.from_step.as_deref()).await?;
    ui.print(&job, &job.job_id)?;
    if ui.live() {
        let watch = global.hint("watch", &job.job_id);
        ui.dim_note(&format!("forked from {} · {watch}", args.job));
    }
    Ok(())
}
