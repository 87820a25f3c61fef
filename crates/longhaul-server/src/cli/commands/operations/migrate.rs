//! `longhaul migrate`: migrates the schema before servers start.

use std::path::PathBuf;

use clap::Args;
use longhaul::store::{postgres, sqlite};
use longhaul_server::config::{Database, Flags};
use longhaul_server::server::StartError;
use serde_json::json;

use super::load_config;
use crate::cli::{CliError, CliResult, Ui};

/// Servers also migrate at the start; use this command if their database user is not allowed to.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of `serve`
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// Database of `serve`
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

pub(crate) async fn run(args: MigrateArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    let MigrateArgs { config, data, database } = args;
    let config = load_config(config, Flags { data, database, ..Flags::default() })?;
    let (database, from, to) = match &config.database {
        Database::Memory => return Err(CliError::usage("a database in memory has no schema")),
        Database::Sqlite(path) if !path.exists() => {
            let message = format!("no database at {}", path.display());
            let hint = "`longhaul serve` creates one with the current schema";
            return Err(CliError::usage_with_hint(message, hint));
        }
        Database::Sqlite(path) => {
            let (from, to) = sqlite::migrate_file(path).map_err(anyhow::Error::from)?;
            (path.display().to_string(), i64::from(from), i64::from(to))
        }
        Database::Postgres(url) => {
            let migrated = postgres::migrate(url.expose())
                .await
                .map_err(|error| anyhow::Error::from(StartError::postgres(error)))?;
            // Without the password, which may also be in the query.
            let shown = longhaul_client::without_password(url.expose());
            let address = shown.split('?').next().unwrap_or_default().to_owned();
            (address, i64::from(migrated.from), i64::from(migrated.to))
        }
    };
    let line = if from == to {
        format!("{database}: schema version {to} is current")
    } else {
        format!("{database}: migrated the schema from version {from} to {to}")
    };
    ui.print(&json!({"database": database, "from": from, "to": to}), &line)
}
