//! The `longhaul` binary: the server and its command line.

mod cli;

use std::process::ExitCode;

/// mimalloc, because a job makes dozens of small allocations on one thread and frees them on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
