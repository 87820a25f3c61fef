//! From the kinds that a configuration declares to those that an engine runs.

use std::path::Path;

use longhaul::Kind;
use longhaul::job::Name;
use longhaul_kinds::command::{CommandError, CommandKind, PipelineStep, Program};

use crate::config::{self, Config, Run};

/// How many jobs run at once in all: each kind has its own bound, and all may be full.
pub(super) fn concurrency(config: &Config) -> usize {
    if !config.role.runs_jobs() {
        return 0;
    }
    let declared = config.kinds.values().map(|kind| kind.concurrency);
    declared.chain([config.worker.concurrency]).map(|jobs| jobs as usize).sum()
}

/// The kind that is always there.
pub(super) fn demo(config: &Config) -> Kind {
    longhaul_kinds::demo().concurrency(config.worker.concurrency as usize)
}

/// A kind that is declared, to be run here if this process runs any.
pub(super) fn declared(
    name: &Name,
    kind: &config::Kind,
    config: &Config,
    work_root: &Path,
) -> Result<Kind, CommandError> {
    let built = if config.role.runs_jobs() {
        command(name, kind, config, work_root)?
    } else {
        // Its programs need not be here.
        Kind::elsewhere(name.as_str())
    };
    let built = built.payload(kind.payload);
    let mut built =
        built.queue(kind.queue.clone()).concurrency(kind.concurrency as usize).retry(kind.retry);
    if let Some(jobs) = kind.running_max {
        built = built.running_max(jobs);
    }
    if let Some(timeout) = kind.timeout {
        built = built.timeout(timeout);
    }
    if let Some(retry_after) = kind.retry_after {
        built = built.retry_after(retry_after);
    }
    Ok(built)
}

/// A kind that programs run, in folders below `work_root`.
fn command(
    name: &Name,
    kind: &config::Kind,
    config: &Config,
    work_root: &Path,
) -> Result<Kind, CommandError> {
    let program = match &kind.run {
        Run::Command(argv) => Program::Single { argv: argv.clone() },
        Run::Steps(steps) => {
            let steps = steps.iter().map(|step| {
                PipelineStep::new(step.name.as_str(), step.command.iter().map(String::as_str))
            });
            Program::Pipeline { steps: steps.collect() }
        }
    };
    let limits = &config.limits.job;
    CommandKind::new(name.as_str(), program, work_root)
        .stdout_bytes_max(limits.result_bytes_max.max(limits.step_bytes_max))
        .stop_grace(config.worker.cancel_grace)
        .build()
}
