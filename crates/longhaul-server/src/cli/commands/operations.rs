//! Commands that run, check and maintain a server.

pub(in crate::cli) mod backup;
pub(in crate::cli) mod bench;
pub(in crate::cli) mod copy;
pub(in crate::cli) mod doctor;
pub(in crate::cli) mod migrate;
pub(in crate::cli) mod restore;
pub(in crate::cli) mod rotate_key;
pub(in crate::cli) mod serve;

use std::path::PathBuf;

use longhaul_server::config::{Config, Flags, Sources};

use crate::cli::{CliError, CliResult};

fn load_config(file: Option<PathBuf>, flags: Flags) -> CliResult<Config> {
    let loaded = Config::load(&Sources::of_process(file, flags));
    loaded.map(|(config, _)| config).map_err(|errors| CliError::usage(errors.to_string()))
}
