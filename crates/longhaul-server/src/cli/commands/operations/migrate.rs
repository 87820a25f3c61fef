//! `longhaul migrate`: brings the schema up to date before servers start on it.

use std::path::PathBuf;

use clap::Args;
use longhaul::store::{postgres, sqlite};
use longhaul_server::config::{Config, Database, Flags, Sources};
use serde_json::json;

use crate::cli::{CliError, Exit, Ui};

/// A server does the same when it starts; this is for those whose servers may not.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data folder that `serve` would be given
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// The database that `serve` would be given
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
            let message = format!("there is no database at {}", path.display());
            let hint = Some("`longhaul serve` makes one with the newest schema".to_owned());
            return Err(CliError::Usage { message, hint });
        }
        Database::Sqlite(path) => {
            let (from, to) = sqlite::migrate_file(path).map_err(anyhow::Error::from)?;
            (path.display().to_string(), i64::from(from), i64::from(to))
        }
        Database::Postgres(url) => {
            let migrated = postgres::migrate(url.expose()).await.map_err(anyhow::Error::from)?;
            // Neither a password before the host nor one among the settings.
            let shown = longhaul_client::without_password(url.expose());
            let shown = shown.split('?').next().unwrap_or_default().to_owned();
            (shown, i64::from(migrated.from), i64::from(migrated.to))
        }
    };
    if ui.json {
        ui.value(&json!({"database": database, "from": from, "to": to}))?;
    } else if from == to {
        ui.line(&format!("{database}: the schema is at version {to}, which is the newest"))?;
    } else {
        ui.line(&format!("{database}: the schema was at version {from} and is at {to} now"))?;
    }
    Ok(Exit::Done)
}
