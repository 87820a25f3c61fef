//! The command line: one file a command, and what they share: how to show things and how to fail.

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
use self::commands::operations::{bench, copy, doctor, migrate, rotate_key, serve};
#[cfg(feature = "render")]
use self::commands::render;
use self::commands::webhooks::{deliveries, endpoints, listen};
use self::commands::{completions, kinds, openapi, queues, replicas};

pub(crate) use error::{CliError, Exit};
pub(crate) use output::ui::Ui;

/// Where a client looks for a server that nobody named.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";
/// How long what a command has left running may take to notice that it is over.
const LEFT_BEHIND_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// Durable jobs: submit once, get the result whenever, never run twice.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every client command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection and output")]
pub(crate) struct Global {
    #[arg(
        long,
        env = "LONGHAUL_SERVER",
        value_name = "URL",
        global = true,
        help = format!("The server's address [default: {DEFAULT_SERVER}]")
    )]
    server: Option<String>,
    /// The API key to show it
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
    /// Show each change of a job until it ends
    Watch(watch::WatchArgs),
    /// Print a job's result
    Result(result::ResultArgs),
    /// List what a job produced besides its result, or download one of them
    Artifacts(artifacts::ArtifactsArgs),
    /// Show what was stored for a job, and when it was destroyed
    Receipt(receipt::ReceiptArgs),
    /// List jobs, newest first
    List(list::ListArgs),
    /// Stop jobs
    Cancel(control::JobIds),
    /// Put failed or cancelled jobs back in line, with their finished steps kept
    Resume(control::JobIds),
    /// Make a new job from an old one, keeping its finished steps
    Fork(fork::ForkArgs),
    /// Delete finished jobs with all that belongs to them
    Purge(control::JobIds),
    /// List the kinds of job that the server knows
    Kinds,
    /// List, pause and resume queues
    Queues(queues::QueuesArgs),
    /// Show what finished jobs used
    Usage(usage::UsageArgs),
    /// List the processes that share the server's store
    Replicas,
    /// Make, list, change and try webhook endpoints
    Endpoints(endpoints::EndpointsArgs),
    /// List and resend what is owed to webhooks
    Deliveries(deliveries::DeliveriesArgs),
    /// Make, list, replace and end API keys
    Keys(keys::KeysArgs),
    /// Make, list and change tenants
    Tenants(tenants::TenantsArgs),
    /// Show who did what to keys, tenants, jobs and queues
    Audit(audit::AuditArgs),
    /// Receive webhooks on this machine and show them
    Listen(listen::ListenArgs),
    /// Check the configuration and everything it points at
    Doctor(doctor::DoctorArgs),
    /// Bring the schema of the database up to date
    Migrate(migrate::MigrateArgs),
    /// Copy everything from SQLite to Postgres
    Copy(copy::CopyArgs),
    /// Put a fresh key first in the server's key file
    RotateKey(rotate_key::RotateKeyArgs),
    /// Draw a diagram, with no server
    #[cfg(feature = "render")]
    Render(render::RenderArgs),
    /// Draw what a server asks for on stdin
    #[cfg(feature = "render")]
    #[command(hide = true)]
    RenderWorker,
    /// Measure how fast the engine or a server is
    Bench(bench::BenchArgs),
    #[command(about = "Print the OpenAPI document: a named server's, else this program's own")]
    Openapi,
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}

impl Global {
    fn client(&self) -> Result<Client, CliError> {
        Ok(Client::new(self.server_or_default(), self.api_key.clone())?)
    }

    fn server_or_default(&self) -> &str {
        self.server.as_deref().unwrap_or(DEFAULT_SERVER)
    }

    /// A command of ours that a person can paste, with the server if it is not the usual one.
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

/// Whether it is `-`, which stands for stdin or stdout where a file may be named.
fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads the arguments, runs the command, and says by the exit code how it went.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(feature = "render")]
    if matches!(cli.command, Command::RenderWorker) {
        return render::worker();
    }
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr());
    let mut ui = Ui::terminal(&mut out, &mut err, cli.global.json);
    let exit = block_on(run(cli, &mut ui)).unwrap_or_else(|error| ui.report(&error));
    ExitCode::from(exit.code())
}

/// Runs a command to its end, and leaves behind what then still runs. A job that never yields, or
/// a call that blocks, has had its grace and must not keep the process.
fn block_on<T>(command: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| CliError::Other(error.into()))?;
    let ended = runtime.block_on(command);
    runtime.shutdown_timeout(LEFT_BEHIND_AFTER);
    ended
}

async fn run(cli: Cli, ui: &mut Ui<'_>) -> Result<Exit, CliError> {
    let Cli { global, command } = cli;
    match command {
        // Boxed: no other command needs as much room.
        Command::Serve(args) => Box::pin(serve::run(args, ui)).await,
        Command::Submit(args) => submit::run(args, &global, ui).await,
        Command::Get(args) => get::run(&args, &global.client()?, ui).await,
        Command::Watch(args) => watch::run(&args, &global, ui).await,
        Command::Result(args) => result::run(&args, &global, ui).await,
        Command::Artifacts(args) => artifacts::run(&args, &global.client()?, ui).await,
        Command::Receipt(args) => receipt::run(&args, &global.client()?, ui).await,
        Command::List(args) => list::run(args, &global.client()?, ui).await,
        Command::Cancel(ids) => control::cancel(&ids, &global.client()?, ui).await,
        Command::Resume(ids) => control::resume(&ids, &global.client()?, ui).await,
        Command::Fork(args) => fork::run(&args, &global, ui).await,
        Command::Purge(ids) => control::purge(&ids, &global.client()?, ui).await,
        Command::Kinds => kinds::run(&global.client()?, ui).await,
        Command::Queues(args) => queues::run(args, &global.client()?, ui).await,
        Command::Usage(args) => usage::run(args, &global.client()?, ui).await,
        Command::Replicas => replicas::run(&global.client()?, ui).await,
        Command::Endpoints(args) => endpoints::run(args, &global.client()?, ui).await,
        Command::Deliveries(args) => deliveries::run(args, &global.client()?, ui).await,
        Command::Keys(args) => keys::run(args, &global.client()?, ui).await,
        Command::Tenants(args) => tenants::run(args, &global.client()?, ui).await,
        Command::Audit(args) => audit::run(&args, &global.client()?, ui).await,
        Command::Listen(args) => listen::run(args, ui).await,
        Command::Doctor(args) => doctor::run(args, ui).await,
        Command::Migrate(args) => migrate::run(args, ui).await,
        Command::Copy(args) => copy::run(args, ui).await,
        Command::RotateKey(args) => rotate_key::run(args, ui),
        #[cfg(feature = "render")]
        Command::Render(args) => render::run(args, ui).await,
        // It has ended before there was anything to run it with.
        #[cfg(feature = "render")]
        Command::RenderWorker => Ok(Exit::Done),
        Command::Bench(args) => bench::run(args, &global, ui).await,
        Command::Openapi => openapi::run(&global, ui).await,
        Command::Completions(args) => completions::run(&args, ui),
    }
}
