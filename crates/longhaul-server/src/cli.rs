//! The command line.

mod commands;
mod error;
mod output;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use longhaul_client::Client;

use self::commands::accounts::{audit, keys, tenants, usage};
use self::commands::jobs::{artifacts, control, fork, get, list, receipt, result, submit, watch};
use self::commands::operations::{
    backup, bench, copy, doctor, migrate, restore, rotate_key, serve,
};
#[cfg(feature = "render")]
use self::commands::render;
use self::commands::webhooks::{deliveries, endpoints, listen};
use self::commands::{completions, kinds, openapi, queues, replicas, run_as};

pub(crate) use error::{CliError, CliResult, Exit};
pub(crate) use output::ui::Ui;

/// Server address without `--server` and `LONGHAUL_SERVER`.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";
/// Time for background tasks to end after the command.
const SHUTDOWN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// Durable jobs: submit once, fetch the result at any time, never run twice.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every client command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection and output")]
pub(crate) struct Global {
    #[arg(
        long,
        env = "LONGHAUL_SERVER",
        value_name = "URL",
        global = true,
        help = format!("Server address [default: {DEFAULT_SERVER}]")
    )]
    server: Option<String>,
    /// API key for authentication
    #[arg(
        long,
        env = "LONGHAUL_API_KEY",
        value_name = "KEY",
        global = true,
        hide_env_values = true
    )]
    api_key: Option<String>,
    /// Print machine-readable output
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server: API, workers and dashboard in one process
    Serve(serve::ServeArgs),
    /// Submit a job
    Submit(submit::SubmitArgs),
    /// Show a job
    Get(get::GetArgs),
    /// Show each change of a job until it finishes
    Watch {
        /// Job id
        job: String,
    },
    /// Print a job's result
    Result(result::ResultArgs),
    /// List the artifacts of a job, or download one of them
    Artifacts(artifacts::ArtifactsArgs),
    /// Show everything stored for a job and its deletion
    Receipt {
        /// Job id; the job may be deleted
        job: String,
    },
    /// List jobs, newest first
    List(list::ListArgs),
    /// Cancel jobs
    Cancel(control::JobIds),
    /// Resume failed or cancelled jobs after their last finished step
    Resume(control::JobIds),
    /// Create a new job from an existing one, keeping its finished steps
    Fork(fork::ForkArgs),
    /// Delete finished jobs and everything stored for them
    Purge(control::JobIds),
    /// List the kinds of jobs
    Kinds,
    /// List, pause and resume queues
    Queues(queues::QueuesArgs),
    /// Show the usage of finished jobs
    Usage(usage::UsageArgs),
    /// List the replicas that share the server's database
    Replicas,
    /// Create, list, change and test webhook endpoints
    Endpoints(endpoints::EndpointsArgs),
    /// List and resend webhook deliveries
    Deliveries(deliveries::DeliveriesArgs),
    /// Create, list, rotate and revoke API keys
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Create, list and change tenants
    Tenants(tenants::TenantsArgs),
    /// Show the audit log
    Audit(audit::AuditArgs),
    /// Receive and print webhooks on this machine
    Listen(listen::ListenArgs),
    /// Check the configuration and everything it refers to
    Doctor(doctor::DoctorArgs),
    /// Migrate the database schema to the current version
    Migrate(migrate::MigrateArgs),
    /// Copy all data from SQLite to Postgres
    Copy(copy::CopyArgs),
    /// Back up a SQLite database with its payloads and server key, also while a server runs
    Backup(backup::BackupArgs),
    /// Restore a backup, or fence the workers of a database that another tool restored
    Restore(restore::RestoreArgs),
    /// Add a new current key to the server's key file
    RotateKey(rotate_key::RotateKeyArgs),
    /// Render a diagram without a server
    #[cfg(feature = "render")]
    Render(render::RenderArgs),
    /// Render the requests of a server from stdin
    #[cfg(feature = "render")]
    #[command(hide = true)]
    RenderWorker,
    /// Start a program of a job as another user
    #[command(hide = true)]
    RunAs(run_as::RunAsArgs),
    /// Measure the throughput and latency of the engine or a server
    Bench(bench::BenchArgs),
    #[command(about = "Print the OpenAPI document of this program, or of the server in --server")]
    Openapi,
    /// Print a shell completion script
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
}

impl Global {
    fn client(&self) -> CliResult<Client> {
        Ok(Client::new(self.server_or_default(), self.api_key.clone())?)
    }

    fn server_or_default(&self) -> &str {
        self.server.as_deref().unwrap_or(DEFAULT_SERVER)
    }

    /// Returns a command to paste, with `--server` unless it is the default.
    fn hint(&self, command: &str, id: &str) -> String {
        match self.server_or_default() {
            DEFAULT_SERVER => format!("longhaul {command} {id}"),
            server => format!(
                "longhaul {command} {id} --server {}",
                longhaul_client::without_password(server)
            ),
        }
    }
}

/// Returns whether the path is `-`, which means stdin or stdout.
fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Parses the arguments, runs the command and returns its exit code.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(feature = "render")]
    if matches!(cli.command, Command::RenderWorker) {
        return render::worker();
    }
    if let Command::RunAs(args) = &cli.command {
        return run_as::run(args);
    }
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr());
    let mut ui = Ui::terminal(&mut out, &mut err, cli.global.json);
    let exit = block_on(run(cli, &mut ui)).unwrap_or_else(|error| ui.report(&error));
    ExitCode::from(exit.code())
}

/// Runs a command, and abandons background tasks that do not end in time, because a job that never
/// yields or a blocking call must not keep the process alive.
fn block_on<T>(command: impl Future<Output = CliResult<T>>) -> CliResult<T> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| CliError::Other(error.into()))?;
    let result = runtime.block_on(command);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

async fn run(cli: Cli, ui: &mut Ui<'_>) -> CliResult {
    let Cli { global, command } = cli;
    match command {
        // Boxed, because its future is much larger than the others.
        Command::Serve(args) => Box::pin(serve::run(args, ui)).await?,
        Command::Submit(args) => return submit::run(args, &global, ui).await,
        Command::Get(args) => get::run(&args, &global.client()?, ui).await?,
        Command::Watch { job } => return watch::run(&job, &global, ui).await,
        Command::Result(args) => return result::run(&args, &global, ui).await,
        Command::Artifacts(args) => return artifacts::run(&args, &global.client()?, ui).await,
        Command::Receipt { job } => receipt::run(&job, &global.client()?, ui).await?,
        Command::List(args) => list::run(args, &global.client()?, ui).await?,
        Command::Cancel(ids) => return control::cancel(&ids, &global.client()?, ui).await,
        Command::Resume(ids) => return control::resume(&ids, &global.client()?, ui).await,
        Command::Fork(args) => fork::run(&args, &global, ui).await?,
        Command::Purge(ids) => return control::purge(&ids, &global.client()?, ui).await,
        Command::Kinds => kinds::run(&global.client()?, ui).await?,
        Command::Queues(args) => queues::run(args, &global.client()?, ui).await?,
        Command::Usage(args) => usage::run(args, &global.client()?, ui).await?,
        Command::Replicas => replicas::run(&global.client()?, ui).await?,
        Command::Endpoints(args) => endpoints::run(args, &global.client()?, ui).await?,
        Command::Deliveries(args) => deliveries::run(args, &global.client()?, ui).await?,
        Command::Keys(command) => keys::run(command, &global.client()?, ui).await?,
        Command::Tenants(args) => tenants::run(args, &global.client()?, ui).await?,
        Command::Audit(args) => audit::run(&args, &global.client()?, ui).await?,
        Command::Listen(args) => listen::run(args, ui).await?,
        Command::Doctor(args) => return doctor::run(args, ui).await,
        Command::Migrate(args) => migrate::run(args, ui).await?,
        Command::Copy(args) => copy::run(args, ui).await?,
        Command::Backup(args) => backup::run(args, ui)?,
        Command::Restore(args) => restore::run(args, ui).await?,
        Command::RotateKey(args) => rotate_key::run(args, ui)?,
        #[cfg(feature = "render")]
        Command::Render(args) => render::run(args, ui).await?,
        // They have ended before there was a runtime.
        #[cfg(feature = "render")]
        Command::RenderWorker => {}
        Command::RunAs(_) => {}
        Command::Bench(args) => bench::run(args, &global, ui).await?,
        Command::Openapi => openapi::run(&global, ui).await?,
        Command::Completions { shell } => completions::run(shell, ui)?,
    }
    Ok(Exit::Done)
}
