//! `longhaul migrate`: migrates the schema before servers start.

use std::path::PathBuf;

use clap::Args;
use longhaul::store::{postgres, sqlite};
use longhaul_server::config::{Config, Database, Flags, Sources};
use longhaul_server::server::StartError;
use serde_json::json;

use crate::cli::{CliError, Exit, Ui};

/// Servers also migrate at the start; use this command if their database user is not allowed to.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of `serve`
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Database of `serve`
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

pub(crate) async fn run(args: MigrateArgs, ui: &mut Ui<'_>) -> Result<Exit, CliError> {
    let flags = Flags {
        data: args.data.map(|path| path.to_string_lossy().into_owned()),
        database: args.database,
        ..Flags::default()
    };
    let sources = Sources::of_process(args.config, flags);
    let (config, _) = Config::load(&sources).map_err(|wrong| CliError::usage(wrong.to_string()))?;
    let (database, from, to) = match &config.database {
        Database::Memory => return Err(CliError::usage("a database in memory has no schema")),
        Database::Sqlite(path) if !path.exists() => {
            let message = format!("no database at {}", path.display());
            let hint = Some("`longhaul serve` creates one with the current schema".to_owned());
            return Err(CliError::Usage { message, hint });
        }
        Database::Sqlite(path) => {
            let (from, to) = sqlite::migrate_file(path).map_err(anyhow::Error::from)?;
            (path.display().to_string(), i64::from(from), i64::from(to))
        }
        Database::Postgres(url) => {
            let migrated = postgres::migrate(url.expose())
                .await
                .map_err(|error| anyhow::Error::from(StartError::postgres(url.expose(), error)))?;
            // Without the password, which may also be in the query.
            let shown = longhaul_client::without_password(url.expose());
            let address = shown.split('?').next().unwrap_or_default().to_owned();
            (address, i64::from(migrated.from), i64::from(migrated.to))
        }
    };
    if ui.json {
        ui.value(&json!({"database": database, "from": from, "to": to}))?;
    } else if from == to {
        ui.line(&format!("{database}: schema version {to} is current"))?;
    } else {
        ui.line(&format!("{database}: migrated the schema from version {from} to {to}"))?;
    }
    Ok(Exit::Done)
}
