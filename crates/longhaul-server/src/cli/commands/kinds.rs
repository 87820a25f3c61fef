//! `longhaul kinds`.

use longhaul_client::Client;
use longhaul_client::wire::KindList;

use crate::cli::output::table;
use crate::cli::{CliError, Exit, Ui};

pub(crate) async fn run(client: &Client, ui: &mut Ui<'_>) -> Result<Exit, CliError> {
    let kinds = client.kinds().await?;
    if ui.json {
        ui.value(&KindList { kinds })?;
    } else {
        ui.line(&table::kinds(&kinds, ui.out_style))?;
    }
    Ok(Exit::Done)
}
