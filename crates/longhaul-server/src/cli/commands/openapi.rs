//! `longhaul openapi`.

use longhaul_client::wire::RawJson;

use crate::cli::{CliResult, Global, Ui};

pub(crate) async fn run(global: &Global, ui: &mut Ui<'_>) -> CliResult<()> {
    let document = match global.server {
        Some(_) => global.client()?.openapi().await?,
        None => compiled_in_document()?,
    };
    ui.document(&document)
}

fn compiled_in_document() -> anyhow::Result<RawJson> {
    Ok(RawJson::from_value(&longhaul_server::api::openapi_document())?)
}
