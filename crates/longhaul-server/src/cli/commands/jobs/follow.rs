//! Waiting for a job to end: shared by `submit --wait`, `watch` and `result --wait`.

use std::time::Duration;

use longhaul_client::wire::Job;
use longhaul_client::{Client, ClientError, Events, Update};

use crate::cli::output::job_line;
use crate::cli::output::live_line::LiveLine;
use crate::cli::{CliError, Exit, Global, Ui};

/// How long one look at a job without an event stream may be held.
const RESUMED_WAIT: Duration = Duration::from_secs(10);

/// How the changes of a job are shown.
pub(crate) enum FollowView {
    /// One line that changes in place.
    LiveLine,
    /// One line for each change, on stderr.
    Remarks,
    /// One line for each change, on stdout.
    Lines,
    /// One line of JSON for each change, on stdout.
    Records,
    /// Not at all.
    Silent,
}

/// How a wait ended.
pub(crate) enum FollowEnd {
    /// The job ended.
    Job(Box<Job>),
    /// Ctrl-C.
    Interrupted,
}

impl FollowView {
    /// For a command whose output is the result: changes are remarks on the way to it.
    pub(crate) fn of_waiting(ui: &Ui<'_>) -> Self {
        match (ui.json, ui.live()) {
            (true, _) => Self::Silent,
            (false, true) => Self::LiveLine,
            (false, false) => Self::Remarks,
        }
    }
}

/// Shows each change of `job` until it ends, or until Ctrl-C.
pub(crate) async fn follow(
    job: Job,
    client: &Client,
    view: &FollowView,
    ui: &mut Ui<'_>,
) -> Result<FollowEnd, CliError> {
    tokio::select! {
        ended = to_the_end(job, client, view, ui) => Ok(FollowEnd::Job(ended?)),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok(FollowEnd::Interrupted)
        }
    }
}

async fn to_the_end(
    job: Job,
    client: &Client,
    view: &FollowView,
    ui: &mut Ui<'_>,
) -> Result<Box<Job>, CliError> {
    let mut live =
        matches!(view, FollowView::LiveLine).then(|| LiveLine::new(&job, ui.now(), ui.err_style));
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
            // It ended unseen and was resumed since, so that the stream has nothing for us.
            *job = client.job(&job.job_id, Some(RESUMED_WAIT)).await?;
            events = client.events(&job.job_id).after(job.version);
        }
    }
}

/// The next change, however often the connection breaks until then.
async fn next_change(
    events: &mut Events,
    mut live: Option<&mut LiveLine>,
    ui: &mut Ui<'_>,
) -> Result<Option<Box<Job>>, CliError> {
    while let Some(update) = events.next().await? {
        match update {
            Update::Job(job) => return Ok(Some(job)),
            Update::Reconnecting { error, .. } => lost(&error, live.as_deref_mut(), ui),
        }
    }
    Ok(None)
}

fn show(
    job: &Job,
    view: &FollowView,
    live: Option<&mut LiveLine>,
    ui: &mut Ui<'_>,
) -> Result<(), CliError> {
    let now = ui.now();
    match view {
        FollowView::LiveLine => {
            if let Some(live) = live {
                live.show(job, now);
            }
        }
        // The end is told by whoever waits.
        FollowView::Remarks if job.status.is_terminal() => {}
        FollowView::Remarks => ui.note(&job_line::transition(job, now, ui.err_style)),
        FollowView::Lines => ui.line(&job_line::transition(job, now, ui.out_style))?,
        FollowView::Records => ui.value(job)?,
        FollowView::Silent => {}
    }
    Ok(())
}

fn lost(error: &ClientError, live: Option<&mut LiveLine>, ui: &mut Ui<'_>) {
    match live {
        Some(live) => live.reconnecting(),
        None => ui.note(&ui.err_style.dim(&format!("reconnecting: {error}"))),
    }
}

/// Ctrl-C ends the wait, not the job: say how to come back to it.
pub(crate) fn interrupted(id: &str, global: &Global, ui: &mut Ui<'_>) -> Exit {
    ui.note(&format!(
        "\nThe job goes on. Watch it:  {}\n                Stop it:  {}",
        ui.err_style.bold(&global.hint("watch", id)),
        ui.err_style.bold(&global.hint("cancel", id)),
    ));
    Exit::Interrupted
}
