//! `longhaul tenants`.

use std::slice;

use clap::{Args, Subcommand, ValueEnum};
use comfy_table::Cell;
use longhaul::job::Timestamp;
use longhaul_client::Client;
use longhaul_client::wire::{
    LimitsPatch, Subscription, Tenant, TenantList, TenantPatch, TenantRequest,
};

use crate::cli::commands::all_pages;
use crate::cli::output::table::{Header, TableRow, text};
use crate::cli::{CliResult, Ui};

#[derive(Debug, Args)]
pub(crate) struct TenantsArgs {
    #[command(subcommand)]
    command: Option<TenantsCommand>,
}

#[derive(Debug, Subcommand)]
enum TenantsCommand {
    /// List tenants; the default
    List,
    /// Create a tenant
    Create {
        /// Id: letters, digits, '.', '_' and '-'
        id: String,
        /// Display name [default: the id]
        #[arg(long)]
        name: Option<String>,
    },
    /// Change a tenant
    Set(SetArgs),
}

#[derive(Debug, Args)]
struct SetArgs {
    /// Tenant id
    id: String,
    /// Display name
    #[arg(long)]
    name: Option<String>,
    /// Payment state
    #[arg(long, value_enum)]
    subscription: Option<SubscriptionArg>,
    /// Customer id at the payment provider; "" for none
    #[arg(long, value_name = "ID")]
    billing_id: Option<String>,
    /// Requests per second; "default" for the configured limit, also below
    #[arg(long, value_name = "N", value_parser = limit::<u32>)]
    requests_per_second: Option<Limit<u32>>,
    /// Pending jobs
    #[arg(long, value_name = "N", value_parser = limit::<u64>)]
    pending_max: Option<Limit<u64>>,
    /// Concurrent jobs
    #[arg(long, value_name = "N", value_parser = limit::<u32>)]
    running_max: Option<Limit<u32>>,
    /// Total bytes of stored payloads and artifacts
    #[arg(long, value_name = "BYTES", value_parser = limit::<u64>)]
    stored_bytes_max: Option<Limit<u64>>,
    /// Bytes of one job's input
    #[arg(long, value_name = "BYTES", value_parser = limit::<u64>)]
    input_bytes_max: Option<Limit<u64>>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SubscriptionArg {
    /// Full access
    Active,
    /// A payment is overdue
    PastDue,
    /// No access
    Suspended,
}

/// A limit; `None` for the configured one.
#[derive(Debug, Clone, Copy)]
struct Limit<T>(Option<T>);

fn limit<T: std::str::FromStr>(text: &str) -> Result<Limit<T>, String> {
    if text == "default" {
        return Ok(Limit(None));
    }
    let number = text.parse().map_err(|_| "expected a whole number or \"default\"".to_owned())?;
    Ok(Limit(Some(number)))
}

pub(crate) async fn run(args: TenantsArgs, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    match args.command.unwrap_or(TenantsCommand::List) {
        TenantsCommand::List => {
            let tenants = all_pages(async |cursor| {
                let page = client.tenants(cursor).await?;
                Ok((page.tenants, page.next_cursor))
            });
            let list = TenantList { tenants: tenants.await?, next_cursor: None };
            let none = "no tenants; create one with `longhaul tenants create ID`";
            ui.list(&list, &list.tenants, none)
        }
        TenantsCommand::Create { id, name } => {
            let tenant = client.create_tenant(&TenantRequest { id, name }).await?;
            ui.print(&tenant, &ui.table(slice::from_ref(&tenant)))
        }
        TenantsCommand::Set(args) => {
            let id = args.id.clone();
            let tenant = client.change_tenant(&id, &patch(args)).await?;
            ui.print(&tenant, &ui.table(slice::from_ref(&tenant)))
        }
    }
}

fn patch(args: SetArgs) -> TenantPatch {
    let limits = LimitsPatch {
        requests_per_second: args.requests_per_second.map(|limit| limit.0),
        pending_max: args.pending_max.map(|limit| limit.0),
        running_max: args.running_max.map(|limit| limit.0),
        stored_bytes_max: args.stored_bytes_max.map(|limit| limit.0),
        input_bytes_max: args.input_bytes_max.map(|limit| limit.0),
    };
    TenantPatch {
        name: args.name,
        subscription: args.subscription.map(|subscription| match subscription {
            SubscriptionArg::Active => Subscription::Active,
            SubscriptionArg::PastDue => Subscription::PastDue,
            SubscriptionArg::Suspended => Subscription::Suspended,
        }),
        limits,
        billing_id: args.billing_id.map(|id| Some(id).filter(|id| !id.is_empty())),
    }
}

impl TableRow for Tenant {
    const HEADER: Header =
        &["TENANT", "NAME", "SUBSCRIPTION", "REQUESTS/S", "PENDING", "RUNNING", "STORED", "INPUT"];

    fn cells(&self, _: Timestamp) -> Vec<Cell> {
        let subscription = match self.subscription {
            Subscription::Active => "active",
            Subscription::PastDue => "past due",
            Subscription::Suspended => "suspended",
        };
        let limits = &self.limits;
        let numbers = [
            limits.requests_per_second.map(u64::from),
            limits.pending_max,
            limits.running_max.map(u64::from),
            limits.stored_bytes_max,
            limits.input_bytes_max,
        ];
        let limit = |limit: Option<u64>| limit.map_or_else(|| Cell::new("-"), Cell::new);
        let texts = [text(&self.id), text(&self.name), Cell::new(subscription)];
        texts.into_iter().chain(numbers.map(limit)).collect()
    }
}
