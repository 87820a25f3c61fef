//! `longhaul queues`.

use clap::{Args, Subcommand};
use longhaul_client::Client;
use longhaul_client::wire::QueueList;
use serde_json::json;

use crate::cli::output::table;
use crate::cli::{CliError, Exit, Ui};

#[derive(Debug, Args)]
pub(crate) struct QueuesArgs {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
}

#[derive(Debug, Subcommand)]
enum QueuesCommand {
    /// List the queues that have unfinished jobs or are paused; the default
    List,
    /// Pause a queue; running jobs continue
    Pause {
        /// Queue name
        name: String,
    },
    /// Resume a paused queue
    Resume {
        /// Queue name
        name: String,
    },
}

pub(crate) async fn run(
    args: QueuesArgs,
    client: &Client,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    match args.command.unwrap_or(QueuesCommand::List) {
        QueuesCommand::List => list(client, ui).await?,
        QueuesCommand::Pause { name } => {
            client.pause_queue(&name).await?;
            changed(&name, true, ui)?;
        }
        QueuesCommand::Resume { name } => {
            client.resume_queue(&name).await?;
            changed(&name, false, ui)?;
        }
    }
    Ok(Exit::Done)
}

async fn list(client: &Client, ui: &mut Ui<'_>) -> Result<(), CliError> {
    let queues = client.queues().await?;
    if ui.json {
        return ui.value(&QueueList { queues });
    }
    if queues.is_empty() {
        ui.note("no queues with unfinished jobs, none paused");
        return Ok(());
    }
    ui.line(&table::queues(&queues, ui.now(), ui.out_style))
}

fn changed(name: &str, paused: bool, ui: &mut Ui<'_>) -> Result<(), CliError> {
    if ui.json {
        return ui.value(&json!({"name": name, "paused": paused}));
    }
    ui.line(&format!("{name}  {}", if paused { "paused" } else { "open" }))
}
