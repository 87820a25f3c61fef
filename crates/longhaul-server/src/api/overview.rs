//! The page at `/`: the latest jobs at a glance.

use std::fmt::Write as _;

use axum::response::Response;
use longhaul::store::{Filter, PageRequest};
use longhaul::{Job, Status};

use super::caller::Caller;
use super::html::{Escaped, page};
use crate::problem::Problem;

/// What is counted, and what is shown.
const COUNTED: usize = 500;
const SHOWN: usize = 20;

/// A page that reads itself again every few seconds.
pub(super) async fn overview(caller: Caller) -> Result<Response, Problem> {
    let latest = PageRequest { limit: COUNTED, before: None };
    let found = caller.engine.jobs(&Filter::default(), &latest).await?;
    let body = write(&found.jobs).map_err(Problem::internal)?;
    Ok(page("Longhaul", "<meta http-equiv=\"refresh\" content=\"5\">", &body))
}

fn write(jobs: &[Job]) -> Result<String, std::fmt::Error> {
    let mut body = String::from("<h1>Longhaul <a href=\"/docs\">API</a></h1>\n");
    writeln!(body, "<ul class=\"counts\">")?;
    for status in Status::ALL {
        let count = jobs.iter().filter(|job| job.status == status).count();
        writeln!(body, "<li><b>{count}</b><span class=\"status {status}\">{status}</span></li>")?;
    }
    writeln!(body, "</ul>\n<p class=\"soft\">of the latest {} jobs</p>", jobs.len())?;
    writeln!(
        body,
        "<table><tr><th>Job</th><th>Kind</th><th>Queue</th><th>Status</th><th>Attempt</th>\
         <th>Accepted</th><th>What happens</th></tr>"
    )?;
    for job in jobs.iter().take(SHOWN) {
        write_row(&mut body, job)?;
    }
    writeln!(body, "</table>")?;
    Ok(body)
}

fn write_row(body: &mut String, job: &Job) -> std::fmt::Result {
    let said = job.progress.as_ref().and_then(|progress| progress.message.as_deref());
    let failed = job.error.as_ref().map(|error| error.message.as_str());
    let happens = failed.or(said).or(job.phase.as_deref()).unwrap_or_default();
    let happens: String = happens.chars().take(200).collect();
    writeln!(
        body,
        "<tr><td><a href=\"/v1/jobs/{id}\"><code>{id}</code></a></td><td>{}</td><td>{}</td>\
         <td><span class=\"status {status}\">{status}</span></td><td>{} of {}</td><td>{}</td>\
         <td>{}</td></tr>",
        Escaped(job.kind.as_str()),
        Escaped(job.queue.as_str()),
        job.attempt,
        job.max_attempts,
        job.created_at,
        Escaped(&happens),
        id = job.id,
        status = job.status,
    )
}
