//! Commands of operators on the data of a server, with the real binary.

mod backup;
mod migrate;

use std::process::Stdio;

use serde_json::Value;

use crate::harness::{CommandOutput, Installation, LONGHAUL, output_of};

async fn run(install: &Installation, args: &[&str]) -> CommandOutput {
    let mut command = install.command(LONGHAUL);
    command.args(args).env("LONGHAUL_SERVER", install.url()).stdin(Stdio::null());
    output_of(command).await.unwrap()
}

/// Runs a command with `--json` and returns its output.
async fn run_json(install: &Installation, args: &[&str]) -> Value {
    let ran = run(install, &[args, &["--json"]].concat()).await;
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))
}
