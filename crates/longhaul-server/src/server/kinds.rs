//! Creates the kinds of the engine from the configuration.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul::blob::Keyring;
use longhaul::job::Name;
use longhaul::{Clock, Kind};
use longhaul_kinds::chat::{Chat, ModelServer, ModelServerError};
use longhaul_kinds::command::{
    CommandError, CommandKind, PipelineStep, Program, ProgramUser, ProgramUserError,
};
use longhaul_kinds::http::{self, HttpKind};

use crate::api::CallerUrls;
#[cfg(feature = "render")]
use crate::api::RenderApi;
use crate::config::{self, ChatTarget, Config, HttpKindConfig, KindRunner, StepCommand};
use longhaul_net::egress;

/// Hidden command of this program that starts a program as another user.
const RUN_AS: &str = "run-as";

/// Error of a configured kind.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("user: {0}")]
    User(#[from] ProgramUserError),
    /// Move the working directories.
    #[error(
        "user: {user:?} may not enter {}, which contains the working directories of jobs; set `work` to a \
         directory that this user may enter, for example \"/var/lib/longhaul-work\"",
        folder.display()
    )]
    Unreachable { user: String, folder: PathBuf },
    #[error("user: cannot find the file of this program: {0}")]
    Launcher(io::Error),
}

/// Returns the limit on concurrent jobs: the sum of all kinds.
pub(super) fn concurrency(config: &Config, chat: Option<&Chat>) -> usize {
    if !config.role.runs_jobs() {
        return 0;
    }
    let declared = config.kinds.values().map(|kind| kind.concurrency);
    let declared: usize =
        declared.chain([config.worker.concurrency]).map(|jobs| jobs as usize).sum();
    let declared =
        declared.saturating_add(config.render.as_ref().map_or(0, |render| render.workers));
    declared.saturating_add(chat.map_or(0, Chat::concurrency))
}

/// Returns the chat gateway, if targets are configured.
pub(super) fn chat(config: &Config, clock: &Clock) -> Result<Option<Chat>, ModelServerError> {
    let Some(chat) = &config.chat else { return Ok(None) };
    let target = |target: &ChatTarget| {
        let ChatTarget { name, url, api, models, concurrency, api_key } = target;
        let mut built =
            ModelServer::new(name.as_str(), url, *api)?.concurrency(*concurrency as usize);
        if let Some(models) = models {
            built = built.models(models);
        }
        match api_key {
            Some(key) => built.key(key.expose()),
            None => Ok(built),
        }
    };
    let targets = chat.targets.iter().map(target).collect::<Result<_, _>>()?;
    Ok(Some(Chat::new(targets, chat.retry, chat.body_bytes_max, clock.clone())))
}

/// Returns the kind `chat`, remote if this process runs no jobs.
pub(super) fn chat_kind(chat: &Chat, config: &Config) -> Kind {
    if config.role.runs_jobs() { chat.kind() } else { chat.remote() }
}

pub(super) fn demo(config: &Config) -> Kind {
    longhaul_kinds::demo().concurrency(config.worker.concurrency as usize)
}

/// Returns the kind `render`, which uses child processes.
#[cfg(feature = "render")]
pub(super) fn render(config: &Config) -> Option<Kind> {
    use longhaul_kinds::render::{RenderKind, queue};
    let render = config.render.as_ref()?;
    if !config.role.runs_jobs() {
        return Some(Kind::remote(RenderKind::NAME).queue(queue()).accepts_payload(false));
    }
    let this = this_program().ok()?;
    let kind = RenderKind::new([this, "render-worker".into()]).limits(render_limits(render));
    Some(kind.build().concurrency(render.workers))
}

/// Returns the settings of `POST /render`.
#[cfg(feature = "render")]
pub(super) fn render_api(config: &Config, keyring: &Arc<Keyring>) -> Option<RenderApi> {
    let render = config.render.as_ref()?;
    let api = RenderApi::new(Arc::clone(keyring), render_limits(render), render.retention);
    Some(api.public_links(render.public_links).base_url(&render.base_url))
}

#[cfg(feature = "render")]
fn render_limits(render: &config::RenderConfig) -> longhaul_render::RenderLimits {
    longhaul_render::RenderLimits {
        source_bytes_max: render.source_bytes_max,
        output_bytes_max: render.output_bytes_max,
        pixels_max: render.pixels_max,
        time_max: render.timeout,
        memory_bytes_max: render.memory_max,
    }
}

#[cfg(not(feature = "render"))]
pub(super) fn render(_: &Config) -> Option<Kind> {
    None
}

/// Returns the kinds whose jobs may name a URL.
pub(super) fn kinds_with_caller_urls(config: &Config) -> CallerUrls {
    let named = config.kinds.iter().filter(|(_, kind)| match &kind.runner {
        KindRunner::Http(target) => target.caller_url,
        KindRunner::Command(_) | KindRunner::Steps(_) => false,
    });
    CallerUrls::of(named.map(|(name, _)| name.to_string()))
}

pub(super) struct KindDeps<'a> {
    /// Parent of the working directories of programs.
    pub(super) work_root: &'a Path,
    /// Client for URLs from callers.
    pub(super) client: &'a egress::Client,
    pub(super) keyring: &'a Arc<Keyring>,
    pub(super) clock: &'a Clock,
}

/// Returns a configured kind, remote if this process runs no jobs.
pub(super) fn configured_kind(
    name: &Name,
    kind: &config::KindConfig,
    config: &Config,
    deps: &KindDeps<'_>,
) -> Result<Kind, KindError> {
    let runs_here = config.role.runs_jobs();
    let built = match &kind.runner {
        KindRunner::Http(target) if runs_here => http(name, kind, target, deps),
        KindRunner::Http(_) => {
            Kind::remote(name.as_str()).idempotency_fields(http::idempotency_fields)
        }
        KindRunner::Command(argv) if runs_here => {
            let program = Program::Single { argv: argv.clone() };
            command(name, program, kind.user.as_deref(), config, deps)?
        }
        KindRunner::Steps(steps) if runs_here => {
            command(name, pipeline(steps), kind.user.as_deref(), config, deps)?
        }
        // The programs need not exist on this machine.
        KindRunner::Command(_) | KindRunner::Steps(_) => Kind::remote(name.as_str()),
    };
    let built = built.accepts_payload(kind.payload);
    let mut built =
        built.queue(kind.queue.clone()).concurrency(kind.concurrency as usize).retry(kind.retry);
    if let Some(jobs) = kind.running_max {
        built = built.running_max(jobs);
    }
    if let (Some(timeout), KindRunner::Command(_) | KindRunner::Steps(_)) =
        (kind.timeout, &kind.runner)
    {
        built = built.timeout(timeout);
    }
    if let Some(retry_after) = kind.retry_after {
        built = built.retry_after(retry_after);
    }
    Ok(built)
}

/// Returns a kind with an HTTP endpoint, which applies the timeout itself.
fn http(
    name: &Name,
    kind: &config::KindConfig,
    config: &HttpKindConfig,
    deps: &KindDeps<'_>,
) -> Kind {
    let KindDeps { client, keyring, clock, .. } = *deps;
    let mut built = match &config.target {
        Some(target) => HttpKind::new(name.as_str(), target.clone()),
        None => HttpKind::to_caller_urls(name.as_str(), client.clone()),
    };
    if config.caller_url {
        built = built.caller_urls(client.clone());
    }
    if let Some(timeout) = kind.timeout {
        built = built.timeout(timeout);
    }
    built
        .method(config.method.clone())
        .headers(config.headers.clone())
        .retry_on(config.retry_on.clone())
        .keyring(Arc::clone(keyring))
        .clock(clock.clone())
        .build()
}

fn pipeline(steps: &[StepCommand]) -> Program {
    let steps = steps
        .iter()
        .map(|step| PipelineStep::new(step.name.as_str(), step.command.iter().map(String::as_str)));
    Program::Pipeline { steps: steps.collect() }
}

fn command(
    name: &Name,
    program: Program,
    user: Option<&str>,
    config: &Config,
    deps: &KindDeps<'_>,
) -> Result<Kind, KindError> {
    let limits = config.limits.job();
    let mut kind = CommandKind::new(name.as_str(), program, deps.work_root)
        .stdout_bytes_max(limits.result_bytes_max.max(limits.step_bytes_max))
        .stop_grace(config.worker.cancel_grace);
    if let Some(user) = user {
        let launcher = this_program().map_err(KindError::Launcher)?;
        kind = kind.user(program_user(user, config)?, [launcher, RUN_AS.into()]);
    }
    Ok(kind.build()?)
}

/// Looks up the user of a kind, and checks that it can reach the working directories of its jobs.
pub fn program_user(name: &str, config: &Config) -> Result<ProgramUser, KindError> {
    let user = ProgramUser::find(name)?;
    // A missing data directory will be created for the server's user only.
    let will_block = !config.data.exists() && config.work.starts_with(&config.data);
    let blocking = will_block.then(|| config.data.clone());
    match blocking.or_else(|| user.cannot_enter(&config.work)) {
        None => Ok(user),
        Some(folder) => Err(KindError::Unreachable { user: user.name().to_owned(), folder }),
    }
}

/// Returns the path of this program, even if its file has been replaced.
fn this_program() -> io::Result<OsString> {
    if cfg!(target_os = "linux") {
        Ok("/proc/self/exe".into())
    } else {
        std::env::current_exe().map(PathBuf::into_os_string)
    }
}
