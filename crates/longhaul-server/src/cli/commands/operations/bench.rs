//! `longhaul bench`: throughput and latency of the engine or a server.

use std::io::IsTerminal;
use std::path::Path;

use clap::Args;
use longhaul_server::bench::{self, BenchLoad, BenchPlan, BenchSubject, Scenario};
use longhaul_server::config::Database;
use tempfile::TempDir;

use crate::cli::{CliError, CliResult, Global, Ui};

/// Runs against the server in `--server`, or an engine in this process.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Scenarios to measure
    #[arg(value_enum, required = true)]
    scenarios: Vec<Scenario>,
    /// Store of the engine: sqlite:PATH, postgres://… or memory [default: a new SQLite file]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    #[command(flatten)]
    load: BenchLoad,
    /// Use and keep the existing database, instead of a temporary one
    #[arg(long)]
    keep: bool,
}

pub(crate) async fn run(args: BenchArgs, global: &Global, ui: &mut Ui<'_>) -> CliResult<()> {
    if args.load.jobs == 0 || args.load.concurrency == 0 {
        return Err(CliError::usage("--jobs and --concurrency take a number above zero"));
    }
    if args.load.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err(CliError::usage("--rate takes a number above zero"));
    }
    if args.database.is_some() && global.server.is_some() {
        return Err(CliError::usage("--database and --server cannot be combined"));
    }
    for scenario in &args.scenarios {
        let plan = BenchPlan {
            scenario: *scenario,
            load: args.load.clone(),
            progress: !ui.json && std::io::stderr().is_terminal(),
        };
        let report = if let Some(url) = &global.server {
            let subject =
                BenchSubject::Server { url: url.clone(), api_key: global.api_key.clone() };
            bench::run(&plan, subject).await?
        } else {
            let (store, _folder) = store(&args)?;
            bench::run(&plan, BenchSubject::Engine(store)).await?
        };
        ui.print(&report, &report.to_string())?;
    }
    Ok(())
}

/// Returns the store, and the temporary directory to delete after the run.
fn store(args: &BenchArgs) -> CliResult<(Database, Option<TempDir>)> {
    let folder = match args.database.as_deref().map(Database::parse) {
        None => tempfile::tempdir(),
        Some(None) => {
            let message = "--database: expected sqlite:PATH, postgres://… or memory";
            return Err(CliError::usage(message));
        }
        Some(Some(Database::Sqlite(path))) if !args.keep => {
            if path.exists() {
                let message = format!("{} already exists; --keep uses it", path.display());
                return Err(CliError::usage(message));
            }
            // On the same file system, because its speed is measured.
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            tempfile::tempdir_in(parent.unwrap_or(Path::new(".")))
        }
        Some(Some(database)) => return Ok((database, None)),
    };
    let folder = folder.map_err(anyhow::Error::from)?;
    Ok((Database::Sqlite(folder.path().join("bench.db")), Some(folder)))
}
