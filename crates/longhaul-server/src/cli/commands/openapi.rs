//! `longhaul openapi`.

use longhaul_client::wire::RawJson;

use crate::cli::{CliError, Exit, Global, Ui};

pub(crate) async fn run(global: &Global, ui: &mut Ui<'_>) -> Result<Exit, CliError> {
    let document = match global.server {
        Some(_) => global.client()?.openapi().await?,
        None => compiled_in_document()?,
    };
    ui.document(&document)?;
    Ok(Exit::Done)
}

fn compiled_in_document() -> anyhow::Result<RawJson> {
    Ok(RawJson::from_value(&longhaul_server::api::openapi_document())?)
}
