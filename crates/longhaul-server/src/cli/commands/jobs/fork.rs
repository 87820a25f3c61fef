//! `longhaul fork`.

use clap::Args;

use crate::cli::{CliError, Exit, Global, Ui};

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// Id of the existing job
    job: String,
    /// First step to run again [default: the first unfinished step]
    #[arg(long, value_name = "NAME")]
    from_step: Option<String>,
}

pub(crate) async fn run(
    args: &ForkArgs,
    global: &Global,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    let job = global.client()?.fork(&args.job, args.from_step.as_deref()).await?;
    if ui.json {
        ui.value(&job)?;
        return Ok(Exit::Done);
    }
    ui.line(&job.job_id)?;
    if ui.live() {
        let watch = global.hint("watch", &job.job_id);
        ui.note(&ui.err_style.dim(&format!("forked from {} · {watch}", args.job)));
    }
    Ok(Exit::Done)
}
