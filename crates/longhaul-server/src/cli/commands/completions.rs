//! `longhaul completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::cli::{Cli, CliResult, Ui};

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, ui: &mut Ui<'_>) -> CliResult<()> {
    // Into memory first, because the generator panics when the pipe closes.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "longhaul", &mut script);
    ui.line(String::from_utf8_lossy(&script).trim_end())
}
