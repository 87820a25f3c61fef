//! `longhaul serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use longhaul_server::auth::IssuedKey;
use longhaul_server::config::{Config, Flags, Role, Sources};
use longhaul_server::logs;
use longhaul_server::server::{Server, StopReason};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::{CliError, CliResult, Exit, Ui};

/// Flags override the configuration file and the environment.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Directory for the database and payloads [default: ./longhaul-data]
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[arg(
        long,
        value_name = "URL",
        help = "Database: sqlite:PATH, memory or postgres://… [default: SQLite in the data directory]"
    )]
    database: Option<String>,
    /// Time to wait for a Postgres server that is down or starting; 0s does not wait [default: 60s]
    #[arg(long, value_name = "DURATION")]
    wait_for_database: Option<String>,
    #[arg(
        long,
        value_name = "URL",
        help = "Payload storage: file:PATH, s3://…, az://… or gs://… [default: the data directory]"
    )]
    blobs: Option<String>,
    /// Role of this process [default: all]
    #[arg(long, value_enum)]
    role: Option<Role>,
    /// Unique name of this process [default: a random name]
    #[arg(long, value_name = "NAME")]
    replica: Option<String>,
}

pub(crate) async fn run(args: ServeArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    let ServeArgs { listen, data, config, database, wait_for_database, blobs, role, replica } =
        args;
    let listen = listen.map(|address| address.to_string());
    let role = role.map(|role| role.as_str().to_owned());
    let flags = Flags { listen, data, database, wait_for_database, blobs, role, replica };
    let (config, _) = Config::load(&Sources::of_process(config, flags)).map_err(|errors| {
        let hint = "`longhaul doctor` shows every value and its origin";
        CliError::usage_with_hint(errors.to_string(), hint)
    })?;
    logs::start(&config.log).map_err(anyhow::Error::from)?;
    hide_memory();
    // Before anything else, so that no signal is lost.
    let stop = stop_on_signal().map_err(anyhow::Error::from)?;
    // A start may wait for the database, or until the name of a killed process is free.
    let Some(started) = stop.run_until_cancelled(Box::pin(Server::start(&config))).await else {
        return Ok(());
    };
    let mut server = started.map_err(anyhow::Error::from)?;
    let first_key = server.take_first_key();
    print_ready(ui, &config, &server, first_key.as_ref());
    match server.run(stop).await {
        StopReason::Stopped => Ok(()),
        StopReason::StoreFailed => Err(anyhow::anyhow!(
            "the database failed, and the server stopped; `longhaul doctor` checks the database"
        )
        .into()),
    }
}

/// Keeps the memory and the environment of this process from programs that run as the same user, for example those of
/// `command` kinds: both hold secrets. Also disables core dumps.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::warn!(%error, "programs of the same user can read the environment of this process");
        }
    }
}

/// Prints the first admin key, if one was created, and the address. A closed stdout is not an error.
fn print_ready(ui: &mut Ui<'_>, config: &Config, server: &Server, first_key: Option<&IssuedKey>) {
    let version = env!("CARGO_PKG_VERSION");
    let url = server.address().map(|address| format!("{}://{address}/", server.scheme()));
    let metrics_url = server.metrics_address().map(|address| format!("http://{address}/metrics"));
    let (data, replica) = (config.data.display(), &config.replica);
    let printed = if ui.json {
        ui.value(&serde_json::json!({
            "version": version, "url": url, "metricsUrl": metrics_url, "data": config.data,
            "replica": config.replica, "role": config.role.as_str(),
            "adminKey": first_key.map(|created| created.text.as_str()),
        }))
    } else {
        if let Some(created) = first_key {
            let key = created.text.as_str();
            let printed = ui.line(&format!("the first admin key, not shown again: {key}"));
            if let Err(error) = printed {
                tracing::warn!(error = %error, "cannot print the first admin key");
            }
        }
        let what = url.map_or_else(|| "worker".to_owned(), |url| format!("dashboard {url}"));
        let metrics = metrics_url.map(|url| format!(", metrics {url}")).unwrap_or_default();
        ui.line(&format!(
            "longhaul {version} is ready: {what}{metrics} (data {data}, replica {replica})"
        ))
    };
    if let Err(error) = printed {
        tracing::debug!(error = %error, "cannot write to stdout");
    }
}

/// Returns a token that the first SIGTERM or SIGINT cancels; the second one ends the process.
fn stop_on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if token.is_cancelled() {
                std::process::exit(Exit::Interrupted.code().into());
            }
            token.cancel();
        }
    });
    Ok(stop)
}
