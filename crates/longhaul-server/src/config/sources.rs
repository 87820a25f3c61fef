//! What the process brings: its flags, its environment, its folder and its name.

use std::ffi::OsString;
use std::path::PathBuf;

/// Characters of the host's name in a replica's: with the suffix it fits into a name.
const HOST_CHARS_MAX: usize = 48;

/// What the command line overrides; unchecked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the flags' own names")]
pub struct Flags {
    pub listen: Option<String>,
    pub data: Option<String>,
    pub database: Option<String>,
    pub blobs: Option<String>,
    pub role: Option<String>,
    pub replica: Option<String>,
}

/// Everything that a configuration is made from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `--config`: must exist.
    pub file: Option<PathBuf>,
    /// Where `longhaul.toml` is looked for when no file is named; need not be there.
    pub folder: PathBuf,
    /// The environment; only `LONGHAUL_…` is looked at.
    pub env: Vec<(OsString, OsString)>,
    /// The command line.
    pub flags: Flags,
    /// The replica's name when nobody gives one.
    pub replica: String,
}

impl Sources {
    /// This process's: its environment, its working directory and its host's name.
    pub fn of_process(file: Option<PathBuf>, flags: Flags) -> Self {
        let folder = PathBuf::from(".");
        Self { file, folder, env: std::env::vars_os().collect(), flags, replica: replica_name() }
    }
}

/// The host's name and a random suffix: two processes on one host must not share a name.
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
    fn processes_name_is_a_name_and_not_shared() {
        let names = [replica_name(), replica_name()];
        assert!(names.iter().all(|name| longhaul::job::Name::new(name).is_ok()), "{names:?}");
        assert_ne!(names[0], names[1]);
    }
}
