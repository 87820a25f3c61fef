//! Inputs of a configuration: flags, environment, working directory and replica name.

use std::ffi::OsString;
use std::path::PathBuf;

/// Command line flags, unchecked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    pub listen: Option<String>,
    pub data: Option<String>,
    pub database: Option<String>,
    pub wait_for_database: Option<String>,
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

/// Returns a random name. Without the host, because tenants see the names of replicas, for example in errors of lost
/// workers.
fn replica_name() -> String {
    format!("replica-{:08x}", rand::random::<u32>())
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
