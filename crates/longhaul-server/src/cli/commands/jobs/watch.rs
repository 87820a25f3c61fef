//! `longhaul watch`.

use clap::Args;

use crate::cli::commands::jobs::follow::{FollowEnd, FollowView, follow, interrupted};
use crate::cli::{CliError, Exit, Global, Ui};

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The job's id
    job: String,
}

pub(crate) async fn run(
    args: &WatchArgs,
    global: &Global,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    let client = global.client()?;
    // Asked first: a wrong id or address fails here at once, a restart later is waited out.
    let job = client.job(&args.job, None).await?;
    let view = if ui.json { FollowView::Records } else { FollowView::Lines };
    match follow(job, &client, &view, ui).await? {
        FollowEnd::Job(job) => Ok(Exit::of(job.status)),
        FollowEnd::Interrupted => Ok(interrupted(&args.job, global, ui)),
    }
}
