//! `longhaul copy`: moves a SQLite database to Postgres.

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul::Clock;
use longhaul::store::postgres::PostgresStore;
use longhaul::store::sqlite::SqliteStore;
use longhaul::transfer::{TransferProgress, TransferStage, TransferSummary, sqlite_to_postgres};
use longhaul_server::config::Database;
use longhaul_server::server::StartError;
use serde_json::json;

use crate::cli::{CliError, CliResult, Ui};

/// Stop the server first. The same command continues an interrupted copy.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// Source: sqlite:PATH
    #[arg(long, value_name = "URL")]
    from: String,
    /// Destination: postgres://…
    #[arg(long, value_name = "URL")]
    to: String,
}

pub(crate) async fn run(args: CopyArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    let path = source(&args)?;
    let from = SqliteStore::open(&path, Clock::system()).map_err(anyhow::Error::from)?;
    let to = PostgresStore::open(&args.to, Clock::system())
        .await
        .map_err(|error| anyhow::Error::from(StartError::postgres(&args.to, error)))?;
    let bar = bar(ui);
    let copied = sqlite_to_postgres(&from, &to, |progress| {
        show(&bar, progress);
        ControlFlow::Continue(())
    })
    .await;
    bar.finish_and_clear();
    print_result(ui, &copied.map_err(anyhow::Error::from)?)
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

fn print_result(ui: &mut Ui<'_>, copied: &TransferSummary) -> CliResult<()> {
    let TransferSummary { jobs, known, tombstones, paused_queues, usage, tenants } = copied;
    if ui.json {
        let tenants = tenants.iter().map(|(tenant, checked)| {
            json!({
                "tenant": tenant.as_str(), "jobs": checked.jobs, "steps": checked.steps,
                "sha256": checked.sha256,
            })
        });
        let tenants: Vec<_> = tenants.collect();
        return ui.value(&json!({
            "jobs": jobs, "known": known, "tombstones": tombstones,
            "pausedQueues": paused_queues, "usage": usage, "tenants": tenants,
        }));
    }
    ui.line(&format!(
        "copied: {jobs} jobs ({known} already copied), {tombstones} tombstones, \
         {paused_queues} paused queues"
    ))?;
    for (tenant, checked) in tenants {
        ui.line(&format!(
            "verified: tenant {tenant}, {} jobs, {} steps, sha256 {}",
            checked.jobs, checked.steps, checked.sha256
        ))?;
    }
    Ok(())
}
