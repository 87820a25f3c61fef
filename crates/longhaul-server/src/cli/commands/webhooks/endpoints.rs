//! `longhaul endpoints`.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use longhaul::job::Timestamp;
use longhaul_client::wire::{
    Endpoint, EndpointList, EndpointPatch, EndpointRequest, NewEndpoint, PayloadSize, RotateRequest,
};
use longhaul_client::{Client, DurationText};
use serde_json::json;

use crate::cli::commands::all_pages;
use crate::cli::commands::webhooks::deliveries;
use crate::cli::output::color::printable;
use crate::cli::output::table::{Header, TableRow, text};
use crate::cli::{CliResult, Ui};

#[derive(Debug, Args)]
pub(crate) struct EndpointsArgs {
    #[command(subcommand)]
    command: Option<EndpointsCommand>,
}

#[derive(Debug, Subcommand)]
enum EndpointsCommand {
    /// List endpoints; the default
    List,
    /// Create an endpoint and print its secret; it is not shown again
    Create {
        /// URL of the receiver
        url: String,
        /// Description of the endpoint
        #[arg(long)]
        description: Option<String>,
        #[command(flatten)]
        subscription: SubscriptionArgs,
    },
    /// Change an endpoint
    Set {
        /// Endpoint id
        id: String,
        /// URL of the receiver
        #[arg(long)]
        url: Option<String>,
        /// Description of the endpoint
        #[arg(long)]
        description: Option<String>,
        #[command(flatten)]
        subscription: SubscriptionArgs,
    },
    /// Enable endpoints
    Enable {
        /// Endpoint ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Disable endpoints
    Disable {
        /// Endpoint ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Replace the secret of an endpoint; the former one stays valid for a while
    Rotate {
        /// Endpoint id
        id: String,
        /// Time for which deliveries are also signed with the former secret [default: 1d]
        #[arg(long, value_name = "DURATION")]
        overlap: Option<DurationText>,
    },
    /// Send a test event to an endpoint
    Test {
        /// Endpoint id
        id: String,
    },
    /// Delete endpoints
    Delete {
        /// Endpoint ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Print the tenant's secret, for job webhooks without their own
    Secret,
}

#[derive(Debug, Args)]
struct SubscriptionArgs {
    /// Event to deliver, for example job.completed; can be repeated [default: all]
    #[arg(long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// Include results of any size, not only up to 16 KiB
    #[arg(long)]
    full: bool,
}

impl SubscriptionArgs {
    fn payload(&self) -> Option<PayloadSize> {
        self.full.then_some(PayloadSize::Full)
    }

    fn events(self) -> Option<Vec<String>> {
        (!self.events.is_empty()).then_some(self.events)
    }
}

pub(crate) async fn run(args: EndpointsArgs, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    match args.command.unwrap_or(EndpointsCommand::List) {
        EndpointsCommand::List => {
            let endpoints = all_pages(async |cursor| {
                let page = client.endpoints(cursor).await?;
                Ok((page.endpoints, page.next_cursor))
            });
            let list = EndpointList { endpoints: endpoints.await?, next_cursor: None };
            let none = "no endpoints; create one with `longhaul endpoints create URL`";
            ui.list(&list, &list.endpoints, none)
        }
        EndpointsCommand::Create { url, description, subscription } => {
            let payload = subscription.payload();
            let request =
                EndpointRequest { url, description, payload, events: subscription.events() };
            show_new(&client.create_endpoint(&request).await?, ui)
        }
        EndpointsCommand::Set { id, url, description, subscription } => {
            let payload = subscription.payload();
            let events = subscription.events();
            let patch = EndpointPatch { url, description, events, payload, enabled: None };
            change(&[id], &patch, client, ui).await
        }
        EndpointsCommand::Enable { ids } => {
            let patch = EndpointPatch { enabled: Some(true), ..EndpointPatch::default() };
            change(&ids, &patch, client, ui).await
        }
        EndpointsCommand::Disable { ids } => {
            let patch = EndpointPatch { enabled: Some(false), ..EndpointPatch::default() };
            change(&ids, &patch, client, ui).await
        }
        EndpointsCommand::Rotate { id, overlap } => {
            show_new(&client.rotate_endpoint(&id, &RotateRequest { overlap }).await?, ui)
        }
        EndpointsCommand::Test { id } => deliveries::show(&client.try_endpoint(&id).await?, ui),
        EndpointsCommand::Delete { ids } => {
            for id in &ids {
                client.delete_endpoint(id).await?;
                let line = format!("{}  deleted", printable(id));
                ui.print(&json!({"id": id, "deleted": true}), &line)?;
            }
            Ok(())
        }
        EndpointsCommand::Secret => {
            let secret = client.webhook_secret().await?;
            ui.print(&secret, &secret.secret)
        }
    }
}

async fn change(
    ids: &[String],
    patch: &EndpointPatch,
    client: &Client,
    ui: &mut Ui<'_>,
) -> CliResult<()> {
    let mut changed = Vec::new();
    for id in ids {
        changed.push(client.change_endpoint(id, patch).await?);
    }
    if !ui.json {
        return ui.line(&ui.table(&changed));
    }
    changed.iter().try_for_each(|endpoint| ui.value(endpoint))
}

/// Prints the secret alone on stdout, so that it can be piped.
fn show_new(new: &NewEndpoint, ui: &mut Ui<'_>) -> CliResult<()> {
    ui.print(new, &new.secret)?;
    let Endpoint { id, url, .. } = &new.endpoint;
    let url = printable(url);
    ui.dim_note(&format!("endpoint {id} at {url}; save its secret now, it is not shown again"));
    Ok(())
}

impl TableRow for Endpoint {
    const HEADER: Header = &["ENDPOINT", "URL", "EVENTS", "STATE", "DESCRIPTION"];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let events = match self.events.as_slice() {
            [] => "all".to_owned(),
            events => events.join(" "),
        };
        let state = match (self.enabled, &self.disabled_reason) {
            (true, _) => "enabled".to_owned(),
            (false, None) => "disabled".to_owned(),
            (false, Some(reason)) => format!("disabled: {}", printable(reason)),
        };
        vec![
            Cell::new(&self.id),
            text(&self.url),
            Cell::new(events),
            Cell::new(state),
            text(&self.description),
        ]
    }
}
