//! Inputs of a configuration: flags, environment, working directory and host name.

use std::ffi::OsString;
use std::path::PathBuf;

/// Characters of the host name in a replica name, so that the suffix still fits.
const HOST_CHARS_MAX: usize = 48;

/// Command line flags, unchecked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    pub listen: Option<String>,
    pub data: Option<String>,
    pub database: Option<String>,
    pub blobs: Option<String>,
    pub role: Option<String>,
    pub replica: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `--config`; must exist.
    pub file: Option<PathBuf>,
    /// Directory of the optional `longhaul.toml`, used without `--config`.
    pub folder: PathBuf,
    /// Environment variables. Only `LONGHAUL_…` and those that values name are read.
    pub env: Vec<(OsString, OsString)>,
    pub flags: Flags,
    pub replica: String,
}

impl Sources {
    /// Returns the inputs of this process.
    pub fn of_process(file: Option<PathBuf>, flags: Flags) -> Self {
        let folder = PathBuf::from(".");
        Self { file, folder, env: std::env::vars_os().collect(), flags, replica: replica_name() }
    }
}

/// Returns the host name with a random suffix, because two processes on one host need two names.
fn replica_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let usable = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let host: String = host.chars().filter(usable).take(HOST_CHARS_MAX).collect();
    let host = host.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let host = if host.is_empty() { "replica" } else { host };
    format!("{host}-{:08x}", rand::random::<u32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_replica_names_are_valid_and_unique() {
        let names = [replica_name(), replica_name()];
        assert!(names.iter().all(|name| longhaul::job::Name::new(name).is_ok()), "{names:?}");
        assert_ne!(names[0], names[1]);
    }
}
