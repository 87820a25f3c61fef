//! How many files, and so connections, the system lets this process open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ConnLimits;

/// Files that are not connections: the database, logs, the programs of jobs.
const OTHERS: u64 = 512;

/// Raises the soft limit on open files to the hard one, and says what it is then.
///
/// The usual soft limit of 1,024 is for programs that use `select`; a server that runs into it
/// can neither accept nor open its own files.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

impl ConnLimits {
    /// Takes no more connections than `open_files` has room for, with some left for the rest.
    #[must_use]
    pub fn within(mut self, open_files: u64) -> Self {
        let room = open_files.saturating_sub(OTHERS).max(open_files / 2);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        if room < self.connections_max {
            let asked = self.connections_max;
            tracing::warn!(
                open_files,
                asked,
                room,
                "too few open files allowed for connections_max"
            );
            self.connections_max = room;
        }
        self
    }
}
