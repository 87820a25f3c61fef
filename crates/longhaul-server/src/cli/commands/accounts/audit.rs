//! `longhaul audit`.

use clap::Args;
use comfy_table::Cell;
use longhaul_client::Client;

use crate::cli::output::color::printable;
use crate::cli::output::table;
use crate::cli::output::time::relative;
use crate::cli::{CliError, Exit, Ui};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Affected tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Affected job, key, tenant or queue
    #[arg(long)]
    target: Option<String>,
    /// Cursor of the next page
    #[arg(long)]
    cursor: Option<String>,
}

pub(crate) async fn run(
    args: &AuditArgs,
    client: &Client,
    ui: &mut Ui<'_>,
) -> Result<Exit, CliError> {
    let AuditArgs { tenant, target, cursor } = args;
    let page = client.audit(tenant.as_deref(), target.as_deref(), cursor.as_deref()).await?;
    if ui.json {
        ui.value(&page)?;
        return Ok(Exit::Done);
    }
    if page.entries.is_empty() {
        ui.note("no audit entries");
        return Ok(Exit::Done);
    }
    let now = ui.now();
    let rows = page.entries.iter().map(|entry| {
        vec![
            Cell::new(relative(now, &entry.at)),
            Cell::new(printable(&entry.tenant)),
            Cell::new(printable(&entry.actor)),
            Cell::new(printable(&entry.action)),
            Cell::new(printable(&entry.target)),
            Cell::new(printable(&entry.detail)),
        ]
    });
    let header = ["TIME", "TENANT", "ACTOR", "ACTION", "TARGET", "DETAIL"];
    ui.line(&table::layout(&header, rows, ui.out_style))?;
    if let Some(cursor) = &page.next_cursor {
        ui.note(&ui.err_style.dim(&format!("next page: longhaul audit --cursor {cursor}")));
    }
    Ok(Exit::Done)
}
