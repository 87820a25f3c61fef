//! `longhaul deliveries`.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use longhaul::job::Timestamp;
use longhaul_client::Client;
use longhaul_client::wire::{Delivery, DeliveryFilter, Instant, ResendRequest, Status};

use crate::cli::output::color::printable;
use crate::cli::output::table::{Header, TableRow, text};
use crate::cli::output::time::relative;
use crate::cli::{CliResult, Ui};

#[derive(Debug, Args)]
pub(crate) struct DeliveriesArgs {
    #[command(subcommand)]
    command: Option<DeliveriesCommand>,
}

#[derive(Debug, Subcommand)]
enum DeliveriesCommand {
    /// List deliveries, newest first; the default
    List {
        /// Status of the deliveries; failed ones are dead letters
        #[arg(long)]
        status: Option<Status>,
        /// Endpoint of the deliveries
        #[arg(long, conflicts_with = "job")]
        endpoint: Option<String>,
        /// Job of the deliveries
        #[arg(long, conflicts_with = "status")]
        job: Option<String>,
        /// Cursor of the next page
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show a delivery with its attempts
    Get {
        /// Delivery id
        id: String,
    },
    /// Resend deliveries
    Resend(ResendArgs),
}

#[derive(Debug, Args)]
struct ResendArgs {
    /// Delivery ids
    #[arg(required_unless_present = "all_dead", conflicts_with = "all_dead")]
    ids: Vec<String>,
    /// Resend all dead letters that match the other options
    #[arg(long)]
    all_dead: bool,
    /// Endpoint of the dead letters
    #[arg(long, requires = "all_dead")]
    endpoint: Option<String>,
    /// Job of the dead letters
    #[arg(long, requires = "all_dead")]
    job: Option<String>,
    /// Event of the dead letters, for example job.failed
    #[arg(long, requires = "all_dead")]
    event: Option<String>,
    /// Time of the oldest event, for example 2026-11-15T08:00:00Z
    #[arg(long, value_name = "INSTANT", requires = "all_dead")]
    since: Option<String>,
}

pub(crate) async fn run(args: DeliveriesArgs, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    let all = DeliveriesCommand::List { status: None, endpoint: None, job: None, cursor: None };
    match args.command.unwrap_or(all) {
        DeliveriesCommand::List { status, endpoint, job, cursor } => {
            let mut cursor = cursor;
            let page = loop {
                let (endpoint, from) = (endpoint.as_deref(), cursor.as_deref());
                let page = match &job {
                    Some(job) => client.job_deliveries(job, from).await?,
                    None => client.deliveries(status, endpoint, from).await?,
                };
                // A page without matching deliveries may have a next one.
                if !page.deliveries.is_empty() || page.next_cursor.is_none() {
                    break page;
                }
                cursor = page.next_cursor;
            };
            ui.list(&page, &page.deliveries, "no deliveries")?;
            if let Some(cursor) = &page.next_cursor {
                ui.dim_note(&format!("next page: longhaul deliveries list --cursor {cursor}"));
            }
            Ok(())
        }
        DeliveriesCommand::Get { id } => show(&client.delivery(&id).await?, ui),
        DeliveriesCommand::Resend(args) => resend(args, client, ui).await,
    }
}

async fn resend(args: ResendArgs, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    for id in &args.ids {
        show(&client.resend(id).await?, ui)?;
    }
    if !args.all_dead {
        return Ok(());
    }
    let filter = DeliveryFilter {
        endpoint_id: args.endpoint,
        job_id: args.job,
        event: args.event,
        created_after: args.since.map(Instant),
    };
    let resent = client.resend_all(&ResendRequest { filter }).await?;
    ui.print(&resent, &format!("{} deliveries queued", resent.count))
}

impl TableRow for Delivery {
    const HEADER: Header =
        &["DELIVERY", "EVENT", "JOB", "RECEIVER", "STATUS", "ATTEMPTS", "TIME", "ERROR"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.delivery_id),
            text(&self.event),
            Cell::new(self.job_id.as_deref().unwrap_or("")),
            text(receiver(self)),
            Cell::new(status_text(self)),
            Cell::new(format!("{}/{}", self.attempt, self.max_attempts)),
            Cell::new(relative(now, &self.timestamp)),
            text(self.error.as_deref().unwrap_or("")),
        ]
    }
}

fn receiver(delivery: &Delivery) -> &str {
    delivery.endpoint_id.as_deref().or(delivery.url.as_deref()).unwrap_or("")
}

/// Status of a delivery for people.
fn status_text(delivery: &Delivery) -> &'static str {
    match delivery.status {
        Status::Pending if delivery.error.is_some() => "retrying",
        Status::Pending | Status::Waiting => "pending",
        Status::Running => "sending",
        Status::Completed => "delivered",
        Status::Failed => "dead letter",
        Status::Cancelled => "cancelled",
    }
}

pub(super) fn show(delivery: &Delivery, ui: &mut Ui<'_>) -> CliResult<()> {
    if ui.json {
        return ui.value(delivery);
    }
    let (event, to) = (printable(&delivery.event), printable(receiver(delivery)));
    ui.line(&format!("{}  {event} to {to}: {}", delivery.delivery_id, status_text(delivery)))?;
    ui.line(&format!("  message   {}", printable(&delivery.message_id)))?;
    ui.line(&format!("  attempts  {} of {}", delivery.attempt, delivery.max_attempts))?;
    if delivery.status == Status::Pending {
        ui.line(&format!("  due       {}", delivery.run_at.as_str()))?;
    }
    for attempt in &delivery.attempts {
        let status = attempt.status.map(|status| status.to_string());
        let outcome = status.or_else(|| attempt.error.clone()).unwrap_or_default();
        let outcome = printable(&outcome);
        ui.line(&format!("  {}  {outcome}  {} ms", attempt.at.as_str(), attempt.latency_ms))?;
        if let Some(response) = &attempt.answer {
            ui.line(&format!("    {}", printable(response)))?;
        }
    }
    Ok(())
}
