//! `longhaul keys`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use comfy_table::Cell;
use longhaul::job::Timestamp;
use longhaul::job::parse_duration;
use longhaul_client::Client;
use longhaul_client::wire::{Instant, Key, KeyList, KeyRequest, NewKey, RotateRequest, Scope};

use crate::cli::output::color::{Style, printable};
use crate::cli::output::table;
use crate::cli::output::time::relative;
use crate::cli::{CliError, Exit, Ui};

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Create an API key and print it; it is not shown again
    Create {
        /// Name of the key
        name: String,
        /// Tenant of the key
        #[arg(long, default_value = "default")]
        tenant: String,
        /// Scope of the key; can be repeated
        #[arg(long = "scope", value_enum, default_values = ["submit", "read"])]
        scopes: Vec<ScopeArg>,
        /// Lifetime, for example 90d [default: unlimited]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        expires_in: Option<Duration>,
        /// Requests per second [default: the limit of the tenant]
        #[arg(long, value_name = "N")]
        requests_per_second: Option<u32>,
    },
    /// List API keys, including expired and revoked ones
    List {
        /// Tenant of the keys
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Replace an API key; the old one stays valid for a while
    Rotate {
        /// Id of the old key
        id: String,
        /// Time for which the old key stays valid [default: 1d]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        overlap: Option<Duration>,
    },
    /// Revoke API keys
    Revoke {
        /// Key ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    /// Submit and control jobs
    Submit,
    /// Read and watch jobs
    Read,
    /// Run jobs as a remote worker
    Work,
    /// Administer the server
    Admin,
}

impl ScopeArg {
    fn to_wire(self) -> Scope {
        match self {
            Self::Submit => Scope::Submit,
            Self::Read => Scope::Read,
            Self::Work => Scope::Work,
            Self::Admin => Scope::Admin,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

pub(crate) async fn run(
    args: KeysArgs,
    client: &Client,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    match args.command {
        KeysCommand::Create { name, tenant, scopes, expires_in, requests_per_second } => {
            let expires_at = expires_in.map(|span| Instant(ui.now().after(span).to_string()));
            let scopes = scopes.into_iter().map(ScopeArg::to_wire).collect();
            let tenant = Some(tenant);
            let request = KeyRequest { tenant, name, scopes, expires_at, requests_per_second };
            show_new(&client.create_key(&request).await?, ui)?;
        }
        KeysCommand::List { tenant } => list(tenant.as_deref(), client, ui).await?,
        KeysCommand::Rotate { id, overlap } => {
            let request = RotateRequest { overlap: overlap.map(longhaul_client::DurationText) };
            show_new(&client.rotate_key(&id, &request).await?, ui)?;
        }
        KeysCommand::Revoke { ids } => {
            for id in &ids {
                client.revoke_key(id).await?;
                if ui.json {
                    ui.value(&serde_json::json!({"id": id, "revoked": true}))?;
                } else {
                    ui.line(&format!("{}  revoked", printable(id)))?;
                }
            }
        }
    }
    Ok(Exit::Done)
}

/// Prints the key alone on stdout, so that it can be piped.
fn show_new(new: &NewKey, ui: &mut Ui<'_>) -> Result<(), CliError> {
    if ui.json {
        return ui.value(new);
    }
    ui.line(&new.key)?;
    let Key { id, tenant, .. } = &new.metadata;
    let what =
        format!("key {id} of tenant {}; save it now, it is not shown again", printable(tenant));
    ui.note(&ui.err_style.dim(&what));
    Ok(())
}

async fn list(tenant: Option<&str>, client: &Client, ui: &mut Ui<'_>) -> Result<(), CliError> {
    let mut keys = Vec::new();
    let mut cursor = None;
    loop {
        let page = client.keys(tenant, cursor.as_deref()).await?;
        keys.extend(page.keys);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    if ui.json {
        return ui.value(&KeyList { keys, next_cursor: None });
    }
    if keys.is_empty() {
        ui.note("no API keys");
        return Ok(());
    }
    ui.line(&rows(&keys, ui.now(), ui.out_style))
}

fn rows(keys: &[Key], now: Timestamp, style: Style) -> String {
    let rows = keys.iter().map(|key| {
        let scopes: Vec<String> =
            key.scopes.iter().map(|scope| format!("{scope:?}").to_lowercase()).collect();
        let ago = |at: &Option<Instant>| at.as_ref().map(|at| relative(now, at));
        let state = match (&key.revoked_at, &key.expires_at) {
            (Some(at), _) => format!("revoked {}", relative(now, at)),
            (None, Some(at)) if at.as_str() <= now.to_string().as_str() => {
                format!("expired {}", relative(now, at))
            }
            (None, Some(at)) => format!("expires {}", relative(now, at)),
            (None, None) => "valid".to_owned(),
        };
        vec![
            Cell::new(&key.id),
            Cell::new(printable(&key.tenant)),
            Cell::new(printable(&key.name)),
            Cell::new(scopes.join(" ")),
            Cell::new(state),
            Cell::new(ago(&key.last_used_at).unwrap_or_else(|| "never".to_owned())),
        ]
    });
    table::layout(&["KEY", "TENANT", "NAME", "SCOPES", "STATE", "USED"], rows, style)
}
