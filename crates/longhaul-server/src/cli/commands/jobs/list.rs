//! `longhaul list`.

use clap::Args;
use longhaul_client::wire::{JobFilter, Status};
use longhaul_client::{Client, ListRequest};

use crate::cli::commands::jobs::submit::{Label, parse_label};
use crate::cli::{CliResult, Ui};

const LIMIT: u32 = 20;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Statuses, separated by commas: pending, running, waiting, completed, failed, cancelled
    #[arg(long, value_delimiter = ',')]
    status: Vec<Status>,
    /// Kind of the jobs
    #[arg(long)]
    kind: Option<String>,
    /// Queue of the jobs
    #[arg(long)]
    queue: Option<String>,
    /// Label of the jobs; can be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label)]
    labels: Vec<Label>,
    /// Maximum number of jobs
    #[arg(long, default_value_t = LIMIT, value_name = "N")]
    limit: u32,
    /// Cursor of the next page
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(args: ListArgs, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    let filter = JobFilter {
        status: args.status,
        kind: args.kind,
        queue: args.queue,
        labels: args.labels.into_iter().collect(),
        created_after: None,
    };
    let request = ListRequest { filter, limit: Some(args.limit), cursor: args.cursor };
    let list = client.list_all(&request).await?;
    ui.list(&list, &list.jobs, "no matching jobs")?;
    if let Some(cursor) = list.next_cursor {
        ui.dim_note(&format!("next page: --cursor {cursor}"));
    }
    Ok(())
}
