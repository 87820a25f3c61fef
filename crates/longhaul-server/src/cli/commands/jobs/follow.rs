//! Waits for a job to finish, for `submit --wait`, `watch` and `result --wait`.

use std::time::Duration;

use longhaul_client::wire::Job;
use longhaul_client::{Client, ClientError, Events, Update};

use crate::cli::output::job_line;
use crate::cli::output::live_line::LiveLine;
use crate::cli::{CliResult, Global, Ui};

/// Longest wait of one request for a job without an event stream.
const RESUMED_WAIT: Duration = Duration::from_secs(10);

/// Presentation of the changes of a job.
pub(crate) enum FollowView {
    /// One line that changes in place.
    Live,
    /// One line for each change, on stderr.
    Notes,
    /// One line for each change, on stdout.
    Lines,
    /// One line of JSON for each change, on stdout.
    Records,
    Silent,
}

impl FollowView {
    /// Returns the view for a command whose output is the result, so that changes go to stderr.
    pub(crate) fn of_waiting(ui: &Ui<'_>) -> Self {
        match (ui.json, ui.live()) {
            (true, _) => Self::Silent,
            (false, true) => Self::Live,
            (false, false) => Self::Notes,
        }
    }
}

/// Shows each change of `job` and returns its end. Returns `None` after Ctrl-C, which ends only the
/// wait, and prints the commands to watch or cancel the job.
pub(crate) async fn follow(
    job: Job,
    client: &Client,
    global: &Global,
    view: &FollowView,
    ui: &mut Ui<'_>,
) -> CliResult<Option<Box<Job>>> {
    let id = job.job_id.clone();
    tokio::select! {
        ended = wait_for_end(job, client, view, ui) => return ended.map(Some),
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    ui.note(&format!(
        "\nThe job continues. Watch it:  {}\n                  Cancel it: {}",
        ui.err_style.bold(&global.hint("watch", &id)),
        ui.err_style.bold(&global.hint("cancel", &id)),
    ));
    Ok(None)
}

async fn wait_for_end(
    job: Job,
    client: &Client,
    view: &FollowView,
    ui: &mut Ui<'_>,
) -> CliResult<Box<Job>> {
    let mut live =
        matches!(view, FollowView::Live).then(|| LiveLine::new(&job, ui.now(), ui.err_style));
    let mut events = client.events(&job.job_id).after(job.version);
    let mut job = Box::new(job);
    loop {
        show(&job, view, live.as_mut(), ui)?;
        if job.status.is_terminal() {
            return Ok(job);
        }
        if let Some(next) = next_change(&mut events, live.as_mut(), ui).await? {
            job = next;
        } else {
            // The job finished and was resumed in between, so that the event stream has ended.
            *job = client.job(&job.job_id, Some(RESUMED_WAIT)).await?;
            events = client.events(&job.job_id).after(job.version);
        }
    }
}

/// Returns the next change, across reconnections.
async fn next_change(
    events: &mut Events,
    mut live: Option<&mut LiveLine>,
    ui: &mut Ui<'_>,
) -> CliResult<Option<Box<Job>>> {
    while let Some(update) = events.next().await? {
        match update {
            Update::Job(job) => return Ok(Some(job)),
            Update::Reconnecting { error, .. } => connection_lost(&error, live.as_deref_mut(), ui),
        }
    }
    Ok(None)
}

fn show(
    job: &Job,
    view: &FollowView,
    live: Option<&mut LiveLine>,
    ui: &mut Ui<'_>,
) -> CliResult<()> {
    let now = ui.now();
    match view {
        FollowView::Live => {
            if let Some(live) = live {
                live.show(job, now);
            }
        }
        // The waiting command prints the end.
        FollowView::Notes if job.status.is_terminal() => {}
        FollowView::Notes => ui.note(&job_line::transition(job, now, ui.err_style)),
        FollowView::Lines => ui.line(&job_line::transition(job, now, ui.out_style))?,
        FollowView::Records => ui.value(job)?,
        FollowView::Silent => {}
    }
    Ok(())
}

fn connection_lost(error: &ClientError, live: Option<&mut LiveLine>, ui: &mut Ui<'_>) {
    match live {
        Some(live) => live.reconnecting(),
        None => ui.dim_note(&format!("connection lost, retrying (the job is safe): {error}")),
    }
}
