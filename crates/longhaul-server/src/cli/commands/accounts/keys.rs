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
    /// Make a key, and print it: this is the only time that it is shown
    Create {
        /// What it is for, in words
        name: String,
        /// Whose it is to be
        #[arg(long, default_value = "default")]
        tenant: String,
        /// What it is to be good for; may repeat
        #[arg(long = "scope", value_enum, default_values = ["submit", "read"])]
        scopes: Vec<ScopeArg>,
        /// For how long, such as 90d [default: for ever]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        expires_in: Option<Duration>,
        /// Requests a second that it may make [default: as its tenant]
        #[arg(long, value_name = "N")]
        requests_per_second: Option<u32>,
    },
    /// List keys, also those that have ended
    List {
        /// Only this tenant's
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Make a key in the place of another, which stays good for a while
    Rotate {
        /// The old key's id
        id: String,
        /// How long the old key stays good [default: 1d]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        overlap: Option<Duration>,
    },
    /// End keys
    Revoke {
        /// The keys' ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    /// Submitting and changing jobs
    Submit,
    /// Reading and watching them
    Read,
    /// Running them as a remote worker
    Work,
    /// Running the server
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
            show_fresh(&client.create_key(&request).await?, ui)?;
        }
        KeysCommand::List { tenant } => list(tenant.as_deref(), client, ui).await?,
        KeysCommand::Rotate { id, overlap } => {
            let request = RotateRequest { overlap: overlap.map(longhaul_client::DurationText) };
            show_fresh(&client.rotate_key(&id, &request).await?, ui)?;
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

/// The key alone on stdout, so that it can be piped to where it is needed.
fn show_fresh(fresh: &NewKey, ui: &mut Ui<'_>) -> Result<(), CliError> {
    if ui.json {
        return ui.value(fresh);
    }
    ui.line(&fresh.key)?;
    let Key { id, tenant, .. } = &fresh.metadata;
    let what =
        format!("key {id} of tenant {}: keep it now, it is not shown again", printable(tenant));
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
        ui.note("there are no keys");
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
            (None, None) => "good".to_owned(),
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
