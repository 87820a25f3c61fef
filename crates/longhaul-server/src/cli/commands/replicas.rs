//! `longhaul replicas`.

use longhaul_client::Client;
use longhaul_client::wire::ReplicaList;

use crate::cli::output::table;
use crate::cli::{CliError, Exit, Ui};

pub(crate) async fn run(client: &Client, ui: &mut Ui<'_>) -> Result<Exit, CliError> {
    let replicas = client.replicas().await?;
    if ui.json {
        ui.value(&ReplicaList { replicas })?;
    } else {
        ui.line(&table::replicas(&replicas, ui.now(), ui.out_style))?;
    }
    Ok(Exit::Done)
}
