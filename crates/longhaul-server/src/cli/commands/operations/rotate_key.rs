//! `longhaul rotate-key`.

use std::path::PathBuf;

use clap::Args;
use longhaul::blob::{KeyError, Keyring};
use longhaul_server::config::{Flags, ServerKeySource};
use serde_json::json;

use super::load_config;
use crate::cli::{CliError, CliResult, Ui};

/// The former keys stay in the file, so that existing data stays readable.
#[derive(Debug, Args)]
pub(crate) struct RotateKeyArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of `serve`
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// Key file [default: the configured one, or server.key in the data directory]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "data"])]
    file: Option<PathBuf>,
}

pub(crate) fn run(args: RotateKeyArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    let file = match args.file {
        Some(file) => file,
        None => configured(args.config, args.data)?,
    };
    let keyring = Keyring::rotate(&file).map_err(rotation_error)?;
    let id = keyring.current_id();
    let line = format!("{id}  is now the current key in {}", file.display());
    ui.print(&json!({"id": id, "file": file}), &line)?;
    ui.note("Running servers use it after a restart. Former keys stay in the file to decrypt existing data.");
    Ok(())
}

/// Returns the key file of `serve`.
fn configured(config: Option<PathBuf>, data: Option<String>) -> CliResult<PathBuf> {
    match load_config(config, Flags { data, ..Flags::default() })?.server_key {
        ServerKeySource::File(path) => Ok(path),
        ServerKeySource::Inline(_) => Err(CliError::usage_with_hint(
            "the keys are in the configuration (server_key), not in a file",
            "add a new key as its first line, and keep the former ones",
        )),
    }
}

fn rotation_error(error: KeyError) -> CliError {
    match error {
        KeyError::File { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("no key file {}", path.display());
            CliError::usage_with_hint(message, "`longhaul serve` creates one at its first start")
        }
        KeyError::File { .. }
        | KeyError::Exposed { .. }
        | KeyError::Malformed { .. }
        | KeyError::Duplicate { .. }
        | KeyError::Empty
        | KeyError::TooMany
        | KeyError::Unknown { .. }
        | KeyError::Damaged => CliError::Other(error.into()),
    }
}
