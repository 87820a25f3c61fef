//! `longhaul audit`.

use clap::Args;
use comfy_table::Cell;
use longhaul::job::Timestamp;
use longhaul_client::Client;
use longhaul_client::wire::AuditEntry;

use crate::cli::output::table::{Header, TableRow, text};
use crate::cli::output::time::relative;
use crate::cli::{CliResult, Ui};

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

pub(crate) async fn run(args: &AuditArgs, client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    let AuditArgs { tenant, target, cursor } = args;
    let page = client.audit(tenant.as_deref(), target.as_deref(), cursor.as_deref()).await?;
    ui.list(&page, &page.entries, "no audit entries")?;
    if let Some(cursor) = &page.next_cursor {
        ui.dim_note(&format!("next page: longhaul audit --cursor {cursor}"));
    }
    Ok(())
}

impl TableRow for AuditEntry {
    const HEADER: Header = &["TIME", "TENANT", "ACTOR", "ACTION", "TARGET", "DETAIL"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let Self { at, tenant, actor, action, target, detail, .. } = self;
        [&relative(now, at), tenant, actor, action, target, detail].map(|cell| text(cell)).into()
    }
}
