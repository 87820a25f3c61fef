//! `longhaul endpoints`.

use clap::{Args, Subcommand};
use comfy_table::Cell;
use longhaul_client::wire::{
    Endpoint, EndpointList, EndpointPatch, EndpointRequest, NewEndpoint, PayloadSize, RotateRequest,
};
use longhaul_client::{Client, DurationText};

use crate::cli::commands::webhooks::deliveries;
use crate::cli::output::color::{Style, printable};
use crate::cli::output::table;
use crate::cli::{CliError, Exit, Ui};

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

pub(crate) async fn run(
    args: EndpointsArgs,
    client: &Client,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    match args.command.unwrap_or(EndpointsCommand::List) {
        EndpointsCommand::List => list(client, ui).await?,
        EndpointsCommand::Create { url, description, subscription } => {
            let payload = subscription.payload();
            let request =
                EndpointRequest { url, description, payload, events: subscription.events() };
            show_new(&client.create_endpoint(&request).await?, ui)?;
        }
        EndpointsCommand::Set { id, url, description, subscription } => {
            let payload = subscription.payload();
            let events = subscription.events();
            let patch = EndpointPatch { url, description, events, payload, enabled: None };
            show(&[client.change_endpoint(&id, &patch).await?], ui)?;
        }
        EndpointsCommand::Enable { ids } => switch(&ids, true, client, ui).await?,
        EndpointsCommand::Disable { ids } => switch(&ids, false, client, ui).await?,
        EndpointsCommand::Rotate { id, overlap } => {
            show_new(&client.rotate_endpoint(&id, &RotateRequest { overlap }).await?, ui)?;
        }
        EndpointsCommand::Test { id } => {
            deliveries::show(&client.try_endpoint(&id).await?, ui)?;
        }
        EndpointsCommand::Delete { ids } => {
            for id in &ids {
                client.delete_endpoint(id).await?;
                if ui.json {
                    ui.value(&serde_json::json!({"id": id, "deleted": true}))?;
                } else {
                    ui.line(&format!("{}  deleted", printable(id)))?;
                }
            }
        }
        EndpointsCommand::Secret => {
            let secret = client.webhook_secret().await?;
            if ui.json { ui.value(&secret)? } else { ui.line(&secret.secret)? }
        }
    }
    Ok(Exit::Done)
}

async fn switch(
    ids: &[String],
    enabled: bool,
    client: &Client,
    ui: &mut Ui<'_>,
) -> Result<(), CliError> {
    let patch = EndpointPatch { enabled: Some(enabled), ..EndpointPatch::default() };
    let mut changed = Vec::new();
    for id in ids {
        changed.push(client.change_endpoint(id, &patch).await?);
    }
    show(&changed, ui)
}

/// Prints the secret alone on stdout, so that it can be piped.
fn show_new(new: &NewEndpoint, ui: &mut Ui<'_>) -> Result<(), CliError> {
    if ui.json {
        return ui.value(new);
    }
    ui.line(&new.secret)?;
    let Endpoint { id, url, .. } = &new.endpoint;
    let what =
        format!("endpoint {id} at {}; save its secret now, it is not shown again", printable(url));
    ui.note(&ui.err_style.dim(&what));
    Ok(())
}

async fn list(client: &Client, ui: &mut Ui<'_>) -> Result<(), CliError> {
    let mut endpoints = Vec::new();
    let mut cursor = None;
    loop {
        let page = client.endpoints(cursor.as_deref()).await?;
        endpoints.extend(page.endpoints);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    if ui.json {
        return ui.value(&EndpointList { endpoints, next_cursor: None });
    }
    if endpoints.is_empty() {
        ui.note("no endpoints; create one with `longhaul endpoints create URL`");
        return Ok(());
    }
    ui.line(&rows(&endpoints, ui.out_style))
}

fn show(endpoints: &[Endpoint], ui: &mut Ui<'_>) -> Result<(), CliError> {
    if ui.json {
        for endpoint in endpoints {
            ui.value(endpoint)?;
        }
        return Ok(());
    }
    ui.line(&rows(endpoints, ui.out_style))
}

fn rows(endpoints: &[Endpoint], style: Style) -> String {
    let rows = endpoints.iter().map(|endpoint| {
        let events = match endpoint.events.as_slice() {
            [] => "all".to_owned(),
            events => events.join(" "),
        };
        let state = match (endpoint.enabled, &endpoint.disabled_reason) {
            (true, _) => "enabled".to_owned(),
            (false, None) => "disabled".to_owned(),
            (false, Some(reason)) => format!("disabled: {}", printable(reason)),
        };
        vec![
            Cell::new(&endpoint.id),
            Cell::new(printable(&endpoint.url)),
            Cell::new(events),
            Cell::new(state),
            Cell::new(printable(&endpoint.description)),
        ]
    });
    table::layout(&["ENDPOINT", "URL", "EVENTS", "STATE", "DESCRIPTION"], rows, style)
}
