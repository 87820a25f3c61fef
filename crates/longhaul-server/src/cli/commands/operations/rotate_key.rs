//! `longhaul rotate-key`.

use std::path::PathBuf;

use clap::Args;
use longhaul::blob::{KeyError, Keyring};
use longhaul_server::config::{Config, Flags, ServerKey, Sources};
use serde_json::json;

use crate::cli::{CliError, Exit, Ui};

/// What was sealed with the keys before stays readable, as they stay in the file.
#[derive(Debug, Args)]
pub(crate) struct RotateKeyArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data folder that `serve` would be given
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// The key file [default: the configured one, else server.key in the data folder]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "data"])]
    file: Option<PathBuf>,
}

pub(crate) fn run(args: RotateKeyArgs, ui: &mut Ui<'_>) -> Result<Exit, CliError> {
    let file = match args.file {
        Some(file) => file,
        None => configured(args.config, args.data)?,
    };
    let keyring = Keyring::rotate(&file).map_err(refusal)?;
    let id = keyring.current_id();
    if ui.json {
        ui.value(&json!({"id": id, "file": file}))?;
        return Ok(Exit::Done);
    }
    ui.line(&format!("{id}  is the first key in {} now", file.display()))?;
    ui.note("Servers that run take it at their next start. The keys before it stay, for what they sealed.");
    Ok(Exit::Done)
}

/// The key file that `serve` would use.
fn configured(config: Option<PathBuf>, data: Option<PathBuf>) -> Result<PathBuf, CliError> {
    let data = data.map(|path| path.to_string_lossy().into_owned());
    let sources = Sources::of_process(config, Flags { data, ..Flags::default() });
    let (config, _) = Config::load(&sources).map_err(|wrong| CliError::usage(wrong.to_string()))?;
    match config.server_key {
        ServerKey::File(path) => Ok(path),
        ServerKey::Inline(_) => Err(CliError::Usage {
            message: "the keys stand in the configuration (server_key) and not in a file"
                .to_owned(),
            hint: Some("put a fresh key on the first line there, and keep the others".to_owned()),
        }),
    }
}

fn refusal(error: KeyError) -> CliError {
    match error {
        KeyError::File { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            CliError::Usage {
                message: format!("there is no key file {}", path.display()),
                hint: Some("`longhaul serve` makes one when it first starts".to_owned()),
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
