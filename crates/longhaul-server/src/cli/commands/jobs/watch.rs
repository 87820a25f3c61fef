//! `longhaul watch`.

use crate::cli::commands::jobs::follow::{FollowView, follow};
use crate::cli::{CliResult, Exit, Global, Ui};

pub(crate) async fn run(id: &str, global: &Global, ui: &mut Ui<'_>) -> CliResult {
    // Read first, because a wrong id or address must fail at once, while a later restart is waited for.
    let client = global.client()?;
    let job = client.job(id, None).await?;
    let view = if ui.json { FollowView::Records } else { FollowView::Lines };
    let ended = follow(job, &client, global, &view, ui).await?;
    Ok(ended.map_or(Exit::Interrupted, |job| Exit::of(job.status)))
}
