//! Clients and libraries of other projects, which `scripts/setup-test` installs.

use std::path::{Path, PathBuf};

use tokio::process::Command;

/// A script in Node.js or Python that uses published packages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ThirdParty {
    /// Script below `tests/it` and the npm package that it imports.
    Node { script: &'static str, package: &'static str },
    /// Script below `tests/it` and the virtual environment with its packages.
    Python { script: &'static str, venv: &'static str },
}

impl ThirdParty {
    pub(crate) fn command(self) -> Command {
        match self {
            Self::Node { script, package } => {
                let modules = installed("node/node_modules");
                assert!(modules.join(package).exists(), "run scripts/setup-test");
                let mut command = Command::new("node");
                command.arg(crate_path("tests/it").join(script)).arg(modules);
                command
            }
            Self::Python { script, venv } => {
                let mut command = Command::new(installed(venv).join("bin/python"));
                command.arg(crate_path("tests/it").join(script));
                command
            }
        }
    }
}

fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn installed(path: &str) -> PathBuf {
    let path = crate_path("../../.tools").join(path);
    assert!(path.exists(), "{} does not exist: run scripts/setup-test", path.display());
    path
}
