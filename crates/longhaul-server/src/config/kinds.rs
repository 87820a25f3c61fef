//! `[kinds.NAME]`: kinds that run a program or send their jobs to an HTTP endpoint.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use longhaul::job::{Limits, Name, Retry};

use super::check::Check;
use super::error::{hint, nearest};
use super::http::{self, HttpKindConfig};
use super::parsers::not_empty;
use super::schema::{count, name, span, switch};
use super::settings::{MOMENT, RUNNING_MAX};
use super::table_reader::{TableReader, read_named_tables};
use super::value::{ConfigEntry, Table};
use super::variables::Variables;

/// Keys of which a kind has exactly one.
const RUNNERS: [&str; 3] = ["command", "steps", "http"];

/// Name of the built-in kind.
pub(super) const DEMO: &str = "demo";
/// Name of the kind for diagrams and of its queue.
pub(crate) const RENDER: &str = "render";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindConfig {
    pub runner: KindRunner,
    /// Queue of jobs that name none.
    pub queue: Name,
    pub timeout: Option<Duration>,
    /// Concurrent jobs in this process.
    pub concurrency: u32,
    /// Concurrent jobs over all replicas.
    pub running_max: Option<u32>,
    /// Attempts and the delays between them.
    pub retry: Retry,
    /// Fixed `Retry-After`, in place of the estimate.
    pub retry_after: Option<Duration>,
    /// True if jobs may have a payload.
    pub payload: bool,
    /// User of the programs. Defaults to that of the server.
    pub user: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindRunner {
    /// One program with its arguments.
    Command(Vec<String>),
    /// A sequence of programs with checkpointed outputs. At least one.
    Steps(Vec<StepCommand>),
    Http(Box<HttpKindConfig>),
}

/// One program of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCommand {
    /// Unique in its kind.
    pub name: Name,
    pub command: Vec<String>,
}

pub(super) fn kinds(
    check: &mut Check,
    tables: &Table,
    built_in: &[&str],
    concurrency: u32,
    variables: &Variables<'_>,
) -> BTreeMap<Name, KindConfig> {
    for (name, entry) in tables.iter().filter(|(name, _)| built_in.contains(&name.as_str())) {
        let error = entry.error(&format!("kinds.{name}"), "the built-in kind has this name");
        check.errors.push(error);
    }
    read_named_tables(check, "kinds", tables, |table| kind(table, concurrency, variables))
}

fn kind(
    table: &mut TableReader<'_>,
    concurrency: u32,
    variables: &Variables<'_>,
) -> Option<KindConfig> {
    let limits = Limits::default();
    let runner = runner(table, variables);
    let queue = table.value("queue", &name());
    let timeout = table.value("timeout", &span(MOMENT..=limits.timeout_max));
    let concurrency = table.value("concurrency", &count(1..=10_000)).unwrap_or(concurrency);
    let running_max = table.value("running_max", &count(1..=RUNNING_MAX));
    let attempts = table.value("max_attempts", &count(1..=limits.max_attempts_max));
    let delay = span(Duration::ZERO..=limits.delay_max);
    let (first, max) = (table.value("retry_first", &delay), table.value("retry_max", &delay));
    let retry_after = span(Duration::from_secs(1)..=Duration::from_hours(1));
    let retry_after = table.value("retry_after", &retry_after);
    let payload = table.value("payload", &switch());
    let user = table.value("user", &not_empty("the name of a user of this machine"));
    let retry = Retry {
        max_attempts: attempts.unwrap_or(Retry::JOB.max_attempts),
        first: first.unwrap_or(Retry::JOB.first),
        // A first delay above the default maximum raises the maximum.
        max: max.unwrap_or(Retry::JOB.max.max(first.unwrap_or_default())),
    };
    if retry.first > retry.max {
        let refuse =
            |entry: &ConfigEntry, key: &str| Err(entry.refused(key, "less than retry_first"));
        table.value_with::<()>("retry_max", refuse);
    }
    let runner = runner?;
    if let (KindRunner::Http(_), Some(_)) = (&runner, &user) {
        let refuse = |entry: &ConfigEntry, key: &str| {
            Err(entry.refused(key, "a kind with `http` runs no program"))
        };
        table.value_with::<()>("user", refuse);
    }
    // Payloads are the request bodies of an endpoint.
    let payload = payload.unwrap_or(matches!(runner, KindRunner::Http(_)));
    let queue = queue.unwrap_or_else(Name::default_queue);
    Some(KindConfig {
        runner,
        queue,
        timeout,
        concurrency,
        running_max,
        retry,
        retry_after,
        payload,
        user,
    })
}

fn runner(table: &mut TableReader<'_>, variables: &Variables<'_>) -> Option<KindRunner> {
    let keys = RUNNERS.into_iter().filter_map(|key| Some((key, table.get(key)?)));
    match *keys.collect::<Vec<_>>() {
        [(runner, entry)] => {
            let key = format!("{}.{runner}", table.key);
            match runner {
                "command" => command(table.check, entry, &key).map(KindRunner::Command),
                "steps" => steps(table.check, entry, &key).map(KindRunner::Steps),
                _ => http::http_kind(table.check, entry, &key, variables)
                    .map(|http| KindRunner::Http(http.into())),
            }
        }
        [] => {
            table.error(format!("`{}` needs one of `{}`", table.key, RUNNERS.join("`, `")));
            None
        }
        [(first, _), (second, _), ..] => {
            table.error(format!("`{}` has both `{first}` and `{second}`; keep one", table.key));
            None
        }
    }
}

fn steps(check: &mut Check, entry: &ConfigEntry, key: &str) -> Option<Vec<StepCommand>> {
    let items = check.take(entry.list(key))?;
    if items.is_empty() {
        check.error(&entry.origin, format!("`{key}` is empty; expected at least one step"));
    }
    let mut names = HashSet::new();
    let mut steps = Vec::new();
    for item in items {
        let step = step(check, item, key)?;
        if !names.insert(step.name.clone()) {
            check.error(
                &item.origin,
                format!("`{key}` has two steps named {:?}", step.name.as_str()),
            );
        }
        steps.push(step);
    }
    Some(steps)
}

fn step(check: &mut Check, item: &ConfigEntry, key: &str) -> Option<StepCommand> {
    let table = check.take(item.table(key))?;
    let known = ["name", "command"];
    for (unknown, entry) in table.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
        let near = hint(nearest(unknown, known.into_iter()));
        check.error(&entry.origin, format!("unknown key `{unknown}` in `{key}`{near}"));
    }
    let (Some(name), Some(argv)) = (table.get("name"), table.get("command")) else {
        check.error(&item.origin, format!("a step in `{key}` needs `name` and `command`"));
        return None;
    };
    let name = check.take(name.name(key));
    let command = command(check, argv, key);
    Some(StepCommand { name: name?, command: command? })
}

fn command(check: &mut Check, entry: &ConfigEntry, key: &str) -> Option<Vec<String>> {
    const EXPECTED: &str = "a program and its arguments, such as [\"./resize\", \"--fast\"]";
    let word = |item: &ConfigEntry| item.as_text().map(str::to_owned);
    let words = entry.list(key).ok().and_then(|items| items.iter().map(word).collect());
    let argv = words.filter(|argv: &Vec<_>| argv.first().is_some_and(|name| !name.is_empty()));
    check.take(argv.ok_or_else(|| entry.wrong(key, EXPECTED)))
}
