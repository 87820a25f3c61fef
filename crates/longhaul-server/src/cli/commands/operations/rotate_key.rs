//! `longhaul rotate-key`.

use std::path::PathBuf;

use clap::Args;
use longhaul::blob::{KeyError, Keyring};
use longhaul_server::config::{Config, Flags, ServerKey, Sources};
use serde_json::json;

use crate::cli::{CliError, Exit, Ui};

/// The former keys stay in the file, so that existing data stays readable.
#[derive(Debug, Args)]
pub(crate) struct RotateKeyArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of `serve`
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Key file [default: the configured one, or server.key in the data directory]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "data"])]
    file: Option<PathBuf>,
}

pub(crate) fn run(args: RotateKeyArgs, ui: &mut Ui<'_>) -> Result<Exit, CliError> {
    let file = match args.file {
        Some(file) => file,
        None => configured(args.config, args.data)?,
    };
    let keyring = Keyring::rotate(&file).map_err(rotation_error)?;
    let id = keyring.current_id();
    if ui.json {
        ui.value(&json!({"id": id, "file": file}))?;
        return Ok(Exit::Done);
    }
    ui.line(&format!("{id}  is now the current key in {}", file.display()))?;
    ui.note("Running servers use it after a restart. Former keys stay in the file to decrypt existing data.");
    Ok(Exit::Done)
}

/// Returns the key file of `serve`.
fn configured(config: Option<PathBuf>, data: Option<PathBuf>) -> Result<PathBuf, CliError> {
    let data = data.map(|path| path.to_string_lossy().into_owned());
    let sources = Sources::of_process(config, Flags { data, ..Flags::default() });
    let (config, _) = Config::load(&sources).map_err(|wrong| CliError::usage(wrong.to_string()))?;
    match config.server_key {
        ServerKey::File(path) => Ok(path),
        ServerKey::Inline(_) => Err(CliError::Usage {
            message: "the keys are in the configuration (server_key), not in a file".to_owned(),
            hint: Some("add a new key as its first line, and keep the former ones".to_owned()),
        }),
    }
}

fn rotation_error(error: KeyError) -> CliError {
    match error {
        KeyError::File { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            CliError::Usage {
                message: format!("no key file {}", path.display()),
                hint: Some("`longhaul serve` creates one at its first start".to_owned()),
            }
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
