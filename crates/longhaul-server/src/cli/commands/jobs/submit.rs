//! `longhaul submit`.

use clap::Args;
use longhaul::job::Timestamp;
use longhaul_client::wire::{Instant, Job, RawJson, Status, SubmitRequest, WebhookRequest};
use longhaul_client::{Client, ClientError, DurationText, SubmitOptions};
use longhaul_server::config::nearest;
use ulid::Ulid;

use crate::cli::commands::jobs::follow::{FollowView, follow};
use crate::cli::commands::jobs::input;
use crate::cli::commands::jobs::payload::{self, PayloadArgs};
use crate::cli::output::job_line;
use crate::cli::{CliError, CliResult, Exit, Global, Ui, is_dash};

/// Name and value of a label.
pub(crate) type Label = (String, String);

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// Kind of the job; `longhaul kinds` lists all
    kind: String,
    /// Input: JSON, @FILE, or - for stdin [default: {}, or null with a payload]
    #[arg(value_name = "INPUT_JSON | @FILE | -", allow_hyphen_values = true)]
    input: Option<String>,
    #[command(flatten)]
    payload: PayloadArgs,
    /// Idempotency key: submitting it again returns the same job
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Wait for the job to finish and print its result
    #[arg(long)]
    wait: bool,
    /// Label of the job; can be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label)]
    labels: Vec<Label>,
    /// Queue [default: the queue of the kind]
    #[arg(long)]
    queue: Option<String>,
    /// Priority from -100 to 100; higher starts first [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Delay before the first attempt, for example 5m
    #[arg(long, value_name = "DURATION", conflicts_with = "run_at")]
    delay: Option<DurationText>,
    /// Earliest start, for example 2026-11-15T08:00:00Z
    #[arg(long, value_name = "INSTANT", value_parser = parse_instant)]
    run_at: Option<Instant>,
    /// Number of attempts [default: the number of the kind]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Timeout of one attempt, for example 30m
    #[arg(long, value_name = "DURATION")]
    timeout: Option<DurationText>,
    /// Webhook URL for the events of the job
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Signing secret of the webhook [default: the tenant's, see longhaul endpoints secret]
    #[arg(
        long,
        value_name = "whsec_…",
        requires = "webhook",
        env = "LONGHAUL_WEBHOOK_SECRET",
        hide_env_values = true
    )]
    webhook_secret: Option<String>,
}

pub(crate) async fn run(args: SubmitArgs, global: &Global, ui: &mut Ui<'_>) -> CliResult {
    let client = global.client()?;
    let input = read_input(&args)?;
    // Always a key, so that a lost response can be retried without running the job twice.
    let key = args.key.clone().unwrap_or_else(random_key);
    let wait = args.wait;
    let options = SubmitOptions { idempotency_key: Some(key), wait: None };
    let (request, payload) = request(args, input);
    let job = match &payload.payload {
        Some(path) => payload::submit(&client, &request, path, &payload, &options, ui).await?,
        None => match client.submit(&request, &options).await {
            Ok(job) => job,
            Err(error) => return Err(with_suggestion(error, &request.kind, &client).await.into()),
        },
    };
    if !wait {
        return accepted(&job, global, ui);
    }
    match follow(job, &client, global, &FollowView::of_waiting(ui), ui).await? {
        Some(job) => ended(&job, payload.payload.is_some(), global, ui),
        None => Ok(Exit::Interrupted),
    }
}

fn read_input(args: &SubmitArgs) -> CliResult<RawJson> {
    match (args.input.as_deref(), &args.payload.payload) {
        (None, Some(_)) => Ok(RawJson::null()),
        (Some("-"), Some(path)) if is_dash(path) => {
            Err(CliError::usage("the input and the payload cannot both come from stdin"))
        }
        (input, _) => input::read(input),
    }
}

fn request(args: SubmitArgs, input: RawJson) -> (SubmitRequest, PayloadArgs) {
    let request = SubmitRequest {
        kind: args.kind,
        input,
        queue: args.queue,
        priority: args.priority,
        run_at: args.run_at,
        delay: args.delay,
        max_attempts: args.max_attempts,
        timeout: args.timeout,
        labels: args.labels.into_iter().collect(),
        retention: None,
        webhook: args.webhook.map(|url| WebhookRequest {
            url,
            events: None,
            secret: args.webhook_secret,
            payload: None,
        }),
    };
    (request, args.payload)
}

/// Names the closest known kind in an `unknown-kind` error.
async fn with_suggestion(error: ClientError, kind: &str, client: &Client) -> ClientError {
    let ClientError::Refused(mut problem) = error else { return error };
    if problem.code == "unknown-kind"
        && let Ok(kinds) = client.kinds().await
    {
        let near = nearest(kind, kinds.iter().map(|kind| kind.name.as_str()));
        let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        problem.detail = format!("unknown kind {kind:?}{hint}");
    }
    ClientError::Refused(problem)
}

/// Prints the id alone on stdout, so that `id=$(longhaul submit …)` works.
fn accepted(job: &Job, global: &Global, ui: &mut Ui<'_>) -> CliResult {
    ui.print(job, &job.job_id)?;
    if ui.live() {
        let watch = global.hint("watch", &job.job_id);
        ui.dim_note(&format!("{} is {} · {watch}", job.kind, job.status));
    }
    Ok(Exit::Done)
}

/// Prints the end of a job and its result.
fn ended(job: &Job, had_payload: bool, global: &Global, ui: &mut Ui<'_>) -> CliResult {
    if ui.json {
        ui.value(job)?;
        return Ok(Exit::of(job.status));
    }
    ui.note(&job_line::ending(job, ui.err_style));
    match job.status {
        Status::Completed => ui.document(&job.result.clone().unwrap_or_default())?,
        Status::Failed | Status::Cancelled if had_payload => {
            let receipt = global.hint("receipt", &job.job_id);
            ui.dim_note(&format!("  its payload is destroyed: {receipt}"));
        }
        Status::Failed | Status::Cancelled => {
            let resume = global.hint("resume", &job.job_id);
            ui.dim_note(&format!("  resume after its last finished step: {resume}"));
        }
        Status::Pending | Status::Running | Status::Waiting => {}
    }
    Ok(Exit::of(job.status))
}

fn random_key() -> String {
    Ulid::from_parts(0, rand::random()).to_string()
}

/// Parses `name=value`.
pub(crate) fn parse_label(text: &str) -> Result<Label, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn parse_instant(text: &str) -> Result<Instant, String> {
    let at = Timestamp::parse(text);
    at.map(|at| at.to_string().into())
        .ok_or_else(|| "expected an RFC 3339 instant, for example 2026-11-15T08:00:00Z".to_owned())
}
