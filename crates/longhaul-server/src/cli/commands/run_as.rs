//! `longhaul run-as`: starts a program of a job as another user.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use longhaul_kinds::command::ProgramUser;

/// Exit code of shells for a program that cannot be started.
const CANNOT_START: u8 = 126;

#[derive(Debug, Args)]
pub(crate) struct RunAsArgs {
    uid: u32,
    gid: u32,
    /// Ids of the user's groups
    #[arg(value_delimiter = ',')]
    groups: Vec<u32>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Replaces this process by the program. Without a runtime, because credentials belong to threads.
pub(crate) fn run(args: &RunAsArgs) -> ExitCode {
    let RunAsArgs { uid, gid, groups, command } = args;
    let Some((program, args)) = command.split_first() else {
        return ExitCode::from(CANNOT_START);
    };
    let error = ProgramUser::exec(*uid, *gid, groups, program, args);
    // Part of the job's error, which shows no folders.
    let name = Path::new(program).file_name().unwrap_or(program);
    eprintln!("cannot start {}: {error}", name.display());
    ExitCode::from(CANNOT_START)
}
