//! `longhaul replicas`.

use longhaul_client::Client;
use longhaul_client::wire::ReplicaList;

use crate::cli::{CliResult, Ui};

pub(crate) async fn run(client: &Client, ui: &mut Ui<'_>) -> CliResult<()> {
    let list = ReplicaList { replicas: client.replicas().await? };
    ui.print(&list, &ui.table(&list.replicas))
}
