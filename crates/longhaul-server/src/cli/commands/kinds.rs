//! `longhaul kinds`.

use longhaul_client::Client;
use longhaul_client::wire::KindList;

use crate::cli::{CliResult, Ui};

pub(crate) async fn run(client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    let list = KindList { kinds: client.kinds().await? };
    ui.print(&list, &ui.table(&list.kinds))
}
