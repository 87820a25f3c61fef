//! Limit on open file descriptors, which bounds the number of connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ConnLimits;

/// Descriptors reserved for the database, logs and the programs of jobs.
const RESERVED: u64 = 512;

/// Raises the soft limit on open files to the hard limit and returns the result.
///
/// The usual soft limit of 1,024 exists for programs that use `select`. A server that reaches it can
/// neither accept connections nor open its own files.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

impl ConnLimits {
    /// Lowers `connections_max` to fit `open_files`, with a reserve for other descriptors.
    #[must_use]
    pub fn within(mut self, open_files: u64) -> Self {
        let available = open_files.saturating_sub(RESERVED).max(open_files / 2);
        let available = usize::try_from(available).unwrap_or(usize::MAX);
        if available < self.connections_max {
            let configured = self.connections_max;
            tracing::warn!(
                open_files,
                configured,
                available,
                "connections_max lowered: the limit on open files is too small"
            );
            self.connections_max = available;
        }
        self
    }
}
