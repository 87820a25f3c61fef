//! `longhaul watch`.

use crate::cli::commands::jobs::follow::{FollowEnd, FollowView, follow, interrupted};
use crate::cli::{CliResult, Exit, Global, Ui};

pub(crate) async fn run(id: &str, global: &Global, ui: &mut Ui<'_>) -> CliResult {
    let client = global.client()?;
    // Read first, because a wrong id or address must fail at once, while a later restart is waited for.
    let job = client.job(id, None).await?;
    let view = if ui.json { FollowView::Records } else { FollowView::Lines };
    match follow(job, &client, &view, ui).await? {
        FollowEnd::Job(job) => Ok(Exit::of(job.status)),
        FollowEnd::Interrupted => Ok(interrupted(id, global, ui)),
    }
}
