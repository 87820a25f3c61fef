//! `longhaul copy`: moves a SQLite database to Postgres.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul::Clock;
use longhaul::blob::Keyring;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::transfer::{
    LEFT_OUT, ServerKeyUses, TransferProgress, TransferStage, TransferSummary, sqlite_to_postgres,
};
use longhaul_server::config::{Database, Flags, ServerKeySource};
use longhaul_server::server::{StartError, existing_keyring};
use serde_json::{Value, json};

use super::load_config;
use crate::cli::{CliError, CliResult, Ui};

/// Stop the server first, and copy to an empty database. The same command continues an interrupted copy.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// Source: sqlite:PATH
    #[arg(long, value_name = "URL")]
    from: String,
    /// Destination: postgres://…
    #[arg(long, value_name = "URL")]
    to: String,
    /// Configuration file, to check the server keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of `serve`, to check the server keys [default: the folder of the source]
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
}

pub(crate) async fn run(args: CopyArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    let path = source(&args)?;
    let server_keys = ConfiguredKeys::open(&args, &path).await?;
    let from = SqliteStore::open(&path, Clock::system()).map_err(anyhow::Error::from)?;
    let to = PostgresStore::open(&args.to, Clock::system())
        .await
        .map_err(|error| anyhow::Error::from(StartError::postgres(error)))?;
    let bar = bar(ui);
    let copied = sqlite_to_postgres(&from, &to, |progress| {
        show(&bar, progress);
        ControlFlow::Continue(())
    })
    .await;
    bar.finish_and_clear();
    print_result(ui, &copied.map_err(anyhow::Error::from)?, &server_keys)
}

/// Returns the source file.
fn source(args: &CopyArgs) -> CliResult<PathBuf> {
    let databases = (Database::parse(&args.from), Database::parse(&args.to));
    let (Some(Database::Sqlite(path)), Some(Database::Postgres(_))) = databases else {
        let message = "only copies --from sqlite:PATH --to postgres://… are supported";
        return Err(CliError::usage(message));
    };
    // Opening the file would create it.
    if !path.is_file() {
        return Err(CliError::usage(format!("no database at {}", path.display())));
    }
    Ok(path)
}

fn bar(ui: &Ui<'_>) -> ProgressBar {
    if !ui.live() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{msg:>8} {wide_bar} {human_pos}/{human_len} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn show(bar: &ProgressBar, progress: TransferProgress) {
    bar.set_message(match progress.stage {
        TransferStage::Copying => "copying",
        TransferStage::Checking => "checking",
    });
    bar.set_length(progress.total);
    bar.set_position(progress.done);
}

/// Server keys of the source's configuration.
struct ConfiguredKeys {
    /// The key file, or the setting with the keys.
    location: String,
    /// `None` if the key file does not exist.
    keyring: Option<Keyring>,
}

impl ConfiguredKeys {
    async fn open(args: &CopyArgs, source: &Path) -> CliResult<Self> {
        let folder = || match source.parent() {
            Some(folder) if folder != Path::new("") => folder.display().to_string(),
            Some(_) | None => ".".to_owned(),
        };
        let data = args.data.clone().or_else(|| args.config.is_none().then(folder));
        let config = load_config(args.config.clone(), Flags { data, ..Flags::default() })?;
        let location = match &config.server_key {
            ServerKeySource::File(path) => path.display().to_string(),
            ServerKeySource::Inline(_) => "server_key in the configuration".to_owned(),
        };
        let keyring = existing_keyring(&config.server_key).await.map_err(anyhow::Error::from)?;
        Ok(Self { location, keyring })
    }

    fn contains(&self, id: &str) -> bool {
        self.keyring.as_ref().is_some_and(|keyring| keyring.ids().any(|known| known == id))
    }
}

fn print_result(
    ui: &mut Ui<'_>,
    copied: &TransferSummary,
    server_keys: &ConfiguredKeys,
) -> CliResult<()> {
    if ui.json {
        return ui.value(&to_json(copied, server_keys));
    }
    let TransferSummary { jobs, known, tenants, tables, server_keys: needed } = copied;
    ui.line(&format!("copied: {jobs} jobs ({known} already copied)"))?;
    for (tenant, digest) in tenants {
        ui.line(&format!(
            "verified: tenant {tenant}, {} jobs, {} steps, sha256 {}",
            digest.jobs, digest.steps, digest.sha256
        ))?;
    }
    for table in tables {
        ui.line(&format!(
            "verified: table {}, {} rows, sha256 {}",
            table.name, table.rows, table.sha256
        ))?;
    }
    for (table, reason) in LEFT_OUT {
        ui.line(&format!("left out: table {table} ({reason})"))?;
    }
    for (id, uses) in needed {
        let ServerKeyUses { api_keys, endpoints, blobs } = uses;
        let (found, next) = if server_keys.contains(id) {
            ("in", "servers on the target need the same server keys")
        } else {
            ("missing in", "they cannot be used without it")
        };
        ui.line(&format!(
            "server key {id}: {found} {}; used by {api_keys} API keys, {endpoints} endpoints, \
             {blobs} payloads and artifacts; {next}",
            server_keys.location
        ))?;
    }
    Ok(())
}

fn to_json(copied: &TransferSummary, server_keys: &ConfiguredKeys) -> Value {
    let tenants = copied.tenants.iter().map(|(tenant, digest)| {
        json!({
            "tenant": tenant.as_str(), "jobs": digest.jobs, "steps": digest.steps,
            "sha256": digest.sha256,
        })
    });
    let tables = copied
        .tables
        .iter()
        .map(|table| json!({"table": table.name, "rows": table.rows, "sha256": table.sha256}));
    let left_out = LEFT_OUT.iter().map(|(table, reason)| json!({"table": table, "reason": reason}));
    let needed = copied.server_keys.iter().map(|(id, uses)| {
        json!({
            "id": id, "apiKeys": uses.api_keys, "endpoints": uses.endpoints, "blobs": uses.blobs,
            "found": server_keys.contains(id),
        })
    });
    json!({
        "jobs": copied.jobs,
        "known": copied.known,
        "tenants": tenants.collect::<Vec<_>>(),
        "tables": tables.collect::<Vec<_>>(),
        "leftOut": left_out.collect::<Vec<_>>(),
        "serverKeys": {"location": server_keys.location, "needed": needed.collect::<Vec<_>>()},
    })
}
