//! From the kinds that a configuration declares to those that an engine runs.

use std::path::Path;

use longhaul::job::Name;
use longhaul::{Clock, Kind};
use longhaul_kinds::chat::{Chat, Target, TargetError};
use longhaul_kinds::command::{CommandError, CommandKind, PipelineStep, Program};

use crate::config::{self, ChatConfig, ChatTarget, Config, Run};

/// How many jobs run at once in all: each kind has its own bound, and all may be full.
pub(super) fn concurrency(config: &Config, chat: Option<&Chat>) -> usize {
    if !config.role.runs_jobs() {
        return 0;
    }
    let declared = config.kinds.values().map(|kind| kind.concurrency);
    let declared: usize =
        declared.chain([config.worker.concurrency]).map(|jobs| jobs as usize).sum();
    declared.saturating_add(chat.map_or(0, Chat::concurrency))
}

/// Calls to the configured targets, if there are any.
pub(super) fn chat(config: &Config, clock: &Clock) -> Result<Option<Chat>, TargetError> {
    let Some(ChatConfig { targets, retry, .. }) = &config.chat else { return Ok(None) };
    let target = |target: &ChatTarget| {
        let ChatTarget { name, url, api, models, concurrency, api_key } = target;
        let mut built = Target::new(name.as_str(), url, *api)?.concurrency(*concurrency as usize);
        if let Some(models) = models {
            built = built.models(models);
        }
        match api_key {
            Some(key) => built.key(key.expose()),
            None => Ok(built),
        }
    };
    let targets = targets.iter().map(target).collect::<Result<_, _>>()?;
    Ok(Some(Chat::new(targets, *retry, clock.clone())))
}

/// The kind of chats, to be run here if this process runs any.
pub(super) fn chatting(chat: &Chat, config: &Config) -> Kind {
    if config.role.runs_jobs() { chat.kind() } else { chat.elsewhere() }
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
