//! `longhaul usage`.

use clap::Args;
use longhaul::job::Timestamp;
use longhaul_client::wire::{Instant, UsageBy};
use longhaul_client::{Client, UsageRequest};

use crate::cli::output::table;
use crate::cli::{CliResult, Ui};

#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// First day or instant, in UTC [default: the first of this month]
    #[arg(long, value_name = "DATE", value_parser = instant)]
    from: Option<Instant>,
    /// Day or instant after the last one, in UTC [default: now]
    #[arg(long, value_name = "DATE", value_parser = instant)]
    to: Option<Instant>,
    /// Period of each row: hour, day or month
    #[arg(long, default_value_t = UsageBy::Day)]
    by: UsageBy,
    /// Print comma-separated values, without the total
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

/// Parses an instant, or a date as its beginning.
fn instant(text: &str) -> Result<Instant, String> {
    let at = Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}T00:00:00Z")));
    at.map(|at| at.to_string().as_str().into())
        .ok_or_else(|| "expected a date such as 2026-11-01 or an RFC 3339 instant".to_owned())
}

pub(crate) async fn run(args: UsageArgs, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    let UsageArgs { from, to, by, csv } = args;
    let request = UsageRequest { from, to, by: Some(by) };
    if csv {
        ui.bytes(&client.usage_csv(&request).await?)?;
        return ui.flush();
    }
    let usage = client.usage(&request).await?;
    if usage.rows.is_empty() && !ui.json {
        ui.note(&format!("no job finished between {} and {}", usage.from, usage.to));
        return Ok(());
    }
    ui.print(&usage, &table::usage(&usage, ui.out_style))
}
