//! The `longhaul` binary: the server and its command line.

mod cli;

use std::process::ExitCode;

/// A job is dozens of small allocations, made on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
