//! `longhaul completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::{Cli, CliResult, Ui};

pub(crate) fn run(shell: Shell, ui: &mut Ui<'_>) -> CliResult<()> {
    // Into memory first, because the generator panics when the pipe closes.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "longhaul", &mut script);
    ui.line(String::from_utf8_lossy(&script).trim_end())
}
