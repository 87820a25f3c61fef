//! `longhaul keys`.

use clap::{Subcommand, ValueEnum};
use comfy_table::Cell;
use longhaul::job::Timestamp;
use longhaul_client::wire::{Instant, Key, KeyList, KeyRequest, NewKey, RotateRequest, Scope};
use longhaul_client::{Client, DurationText};
use serde_json::json;

use crate::cli::commands::all_pages;
use crate::cli::output::color::printable;
use crate::cli::output::table::{Header, TableRow, text};
use crate::cli::output::time::relative;
use crate::cli::{CliResult, Ui};

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
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
        #[arg(long, value_name = "DURATION")]
        expires_in: Option<DurationText>,
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
        #[arg(long, value_name = "DURATION")]
        overlap: Option<DurationText>,
    },
    /// Revoke API keys
    Revoke {
        /// Key ids
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ScopeArg {
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

pub(crate) async fn run(command: KeysCommand, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    match command {
        KeysCommand::Create { name, tenant, scopes, expires_in, requests_per_second } => {
            let expires_at = expires_in.map(|span| Instant(ui.now().after(span.0).to_string()));
            let scopes = scopes.into_iter().map(ScopeArg::to_wire).collect();
            let tenant = Some(tenant);
            let request = KeyRequest { tenant, name, scopes, expires_at, requests_per_second };
            show_new(&client.create_key(&request).await?, ui)
        }
        KeysCommand::List { tenant } => {
            let keys = all_pages(async |cursor| {
                let page = client.keys(tenant.as_deref(), cursor).await?;
                Ok((page.keys, page.next_cursor))
            });
            let list = KeyList { keys: keys.await?, next_cursor: None };
            ui.list(&list, &list.keys, "no API keys")
        }
        KeysCommand::Rotate { id, overlap } => {
            show_new(&client.rotate_key(&id, &RotateRequest { overlap }).await?, ui)
        }
        KeysCommand::Revoke { ids } => {
            for id in &ids {
                client.revoke_key(id).await?;
                let line = format!("{}  revoked", printable(id));
                ui.print(&json!({"id": id, "revoked": true}), &line)?;
            }
            Ok(())
        }
    }
}

/// Prints the key alone on stdout, so that it can be piped.
fn show_new(new: &NewKey, ui: &mut Ui<'_>) -> CliResult<()> {
    ui.print(new, &new.key)?;
    let Key { id, tenant, .. } = &new.metadata;
    let tenant = printable(tenant);
    ui.dim_note(&format!("key {id} of tenant {tenant}; save it now, it is not shown again"));
    Ok(())
}

impl TableRow for Key {
    const HEADER: Header = &["KEY", "TENANT", "NAME", "SCOPES", "STATE", "USED"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let scopes: Vec<String> =
            self.scopes.iter().map(|scope| format!("{scope:?}").to_lowercase()).collect();
        let state = match (&self.revoked_at, &self.expires_at) {
            (Some(at), _) => format!("revoked {}", relative(now, at)),
            (None, Some(at)) if at.as_str() <= now.to_string().as_str() => {
                format!("expired {}", relative(now, at))
            }
            (None, Some(at)) => format!("expires {}", relative(now, at)),
            (None, None) => "valid".to_owned(),
        };
        let used = self.last_used_at.as_ref().map(|at| relative(now, at));
        vec![
            Cell::new(&self.id),
            text(&self.tenant),
            text(&self.name),
            Cell::new(scopes.join(" ")),
            Cell::new(state),
            Cell::new(used.as_deref().unwrap_or("never")),
        ]
    }
}
