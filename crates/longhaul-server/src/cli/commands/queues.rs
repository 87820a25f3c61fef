//! `longhaul queues`.

use clap::{Args, Subcommand};
use longhaul_client::Client;
use longhaul_client::wire::QueueList;
use serde_json::json;

use crate::cli::{CliResult, Ui};

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

pub(crate) async fn run(args: QueuesArgs, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    match args.command.unwrap_or(QueuesCommand::List) {
        QueuesCommand::List => {
            let list = QueueList { queues: client.queues().await? };
            ui.list(&list, &list.queues, "no queues with unfinished jobs, none paused")
        }
        QueuesCommand::Pause { name } => {
            client.pause_queue(&name).await?;
            ui.print(&json!({"name": name, "paused": true}), &format!("{name}  paused"))
        }
        QueuesCommand::Resume { name } => {
            client.resume_queue(&name).await?;
            ui.print(&json!({"name": name, "paused": false}), &format!("{name}  open"))
        }
    }
}
