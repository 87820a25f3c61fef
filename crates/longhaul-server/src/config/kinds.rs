//! The tables that declare kinds.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use longhaul::job::{Limits, Name, Retry};

use super::check::{Check, MOMENT, RUNNING_MAX};
use super::error::{ConfigError, hint, nearest};
use super::http::{self, HttpTarget};
use super::value::{Entry, Table};
use super::variables::Variables;

/// Keys of a kind's table.
const KEYS: [&str; 12] = [
    "command",
    "concurrency",
    "http",
    "max_attempts",
    "payload",
    "queue",
    "retry_after",
    "retry_first",
    "retry_max",
    "running_max",
    "steps",
    "timeout",
];

/// Keys that the design has and this version has not.
const NOT_BUILT: [&str; 1] = ["remote"];

/// What a kind may be run by.
const WAYS: [&str; 3] = ["command", "steps", "http"];

/// The built-in kind's name.
pub(super) const DEMO: &str = "demo";
/// Also the name of its queue.
pub(crate) const RENDER: &str = "render";

/// How jobs of one kind are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// What is run.
    pub run: Run,
    /// The queue of jobs that name none.
    pub queue: Name,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Jobs of this kind at once, in this process.
    pub concurrency: u32,
    /// Jobs of this kind at once, over all replicas.
    pub running_max: Option<u32>,
    /// Attempts and the waits between them.
    pub retry: Retry,
    /// What callers are told instead of the estimate.
    pub retry_after: Option<Duration>,
    /// Whether its jobs may bring a payload.
    pub payload: bool,
}

/// What a job of a kind runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// One program with its arguments.
    Command(Vec<String>),
    /// Programs one after the other, each with its output kept. At least one.
    Steps(Vec<StepCommand>),
    /// A request to an endpoint.
    Http(Box<HttpTarget>),
}

/// One program of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCommand {
    /// Unique in its kind.
    pub name: Name,
    /// The program with its arguments.
    pub command: Vec<String>,
}

/// All kinds that are right; `check` hears about the others.
pub(super) fn kinds(
    check: &mut Check,
    tables: &Table,
    built_in: &[&str],
    concurrency: u32,
    variables: &Variables<'_>,
) -> BTreeMap<Name, Kind> {
    let mut kinds = BTreeMap::new();
    for (name, entry) in tables {
        let key = format!("kinds.{name}");
        let valid = match Name::new(name) {
            Ok(_) if built_in.contains(&name.as_str()) => {
                Err(format!("`{key}`: the built-in kind has this name"))
            }
            Ok(name) => Ok(name),
            Err(error) => Err(format!("`{key}`: {error}")),
        };
        let valid = check.take(valid.map_err(|why| ConfigError::new(&entry.origin, why)));
        let kind = check.take(entry.table(&key)).and_then(|table| {
            Reader { check, key: &key, entry, table, variables }.kind(concurrency)
        });
        kinds.extend(valid.zip(kind));
    }
    kinds
}

struct Reader<'a> {
    check: &'a mut Check,
    /// `kinds.NAME`
    key: &'a str,
    entry: &'a Entry,
    table: &'a Table,
    variables: &'a Variables<'a>,
}

impl Reader<'_> {
    fn kind(&mut self, concurrency: u32) -> Option<Kind> {
        self.refuse_unknown();
        let limits = Limits::default();
        let run = self.run();
        let queue = self.read("queue", |entry, key| {
            Name::new(entry.text(key)?).map_err(|error| entry.refused(key, error))
        });
        let timeout = self.read("timeout", |e, key| e.duration(key, MOMENT..=limits.timeout_max));
        let own_concurrency = self.read("concurrency", |e, key| e.count(key, 1..=10_000));
        let running_max = self.read("running_max", |e, key| e.count(key, RUNNING_MAX));
        let attempts =
            self.read("max_attempts", |e, key| e.count(key, 1..=limits.max_attempts_max));
        let wait = Duration::ZERO..=limits.delay_max;
        let first = self.read("retry_first", |e, key| e.duration(key, wait.clone()));
        let max = self.read("retry_max", |e, key| e.duration(key, wait.clone()));
        let hour = Duration::from_secs(1)..=Duration::from_hours(1);
        let retry_after = self.read("retry_after", |e, key| e.duration(key, hour));
        let payload = self.read("payload", Entry::switch);
        let retry = Retry {
            max_attempts: attempts.unwrap_or(Retry::JOB.max_attempts),
            first: first.unwrap_or(Retry::JOB.first),
            // A first wait beyond the default bound is meant.
            max: max.unwrap_or(Retry::JOB.max.max(first.unwrap_or_default())),
        };
        if retry.first > retry.max {
            self.read("retry_max", |e, key| Err::<(), _>(e.refused(key, "less than retry_first")));
        }
        let run = run?;
        // Bodies of any size are what an endpoint is asked with.
        let payload = payload.unwrap_or(matches!(run, Run::Http(_)));
        Some(Kind {
            run,
            queue: queue.unwrap_or_else(Name::default_queue),
            timeout,
            concurrency: own_concurrency.unwrap_or(concurrency),
            running_max,
            retry,
            retry_after,
            payload,
        })
    }

    fn refuse_unknown(&mut self) {
        for (name, entry) in self.table {
            if KEYS.contains(&name.as_str()) {
                continue;
            }
            let key = format!("{}.{name}", self.key);
            let why = if NOT_BUILT.contains(&name.as_str()) {
                format!("`{key}` is not built yet")
            } else {
                format!("unknown key `{key}`{}", hint(nearest(name, KEYS.into_iter())))
            };
            self.check.error(&entry.origin, why);
        }
    }

    /// Reads a key if it is there.
    fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Entry, &str) -> Result<T, ConfigError>,
    ) -> Option<T> {
        let entry = self.table.get(name)?;
        self.check.take(read(entry, &format!("{}.{name}", self.key)))
    }

    fn run(&mut self) -> Option<Run> {
        let given: Vec<(&str, &Entry)> =
            WAYS.into_iter().filter_map(|way| Some((way, self.table.get(way)?))).collect();
        match given.as_slice() {
            [(way, entry)] => {
                let key = format!("{}.{way}", self.key);
                match *way {
                    "command" => command(self.check, entry, &key).map(Run::Command),
                    "steps" => steps(self.check, entry, &key).map(Run::Steps),
                    _ => http::target(self.check, entry, &key, self.variables)
                        .map(|target| Run::Http(target.into())),
                }
            }
            // One that is not built has been refused already.
            [] if NOT_BUILT.iter().any(|name| self.table.contains_key(*name)) => None,
            [] => {
                let why = format!("`{}` needs one of `{}`", self.key, WAYS.join("`, `"));
                self.check.error(&self.entry.origin, why);
                None
            }
            [(one, _), (other, _), ..] => {
                let why = format!("`{}` has both `{one}` and `{other}`; one is enough", self.key);
                self.check.error(&self.entry.origin, why);
                None
            }
        }
    }
}

fn steps(check: &mut Check, entry: &Entry, key: &str) -> Option<Vec<StepCommand>> {
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

fn step(check: &mut Check, item: &Entry, key: &str) -> Option<StepCommand> {
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
    let name = name.text(key).and_then(|text| Name::new(text).map_err(|e| name.refused(key, e)));
    let name = check.take(name);
    let command = command(check, argv, key);
    Some(StepCommand { name: name?, command: command? })
}

fn command(check: &mut Check, entry: &Entry, key: &str) -> Option<Vec<String>> {
    const EXPECTED: &str = "a program and its arguments, such as [\"./resize\", \"--fast\"]";
    let words = entry.list(key).ok().map(|items| {
        items.iter().map(|item| item.text(key).ok().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    let argv = words.flatten().filter(|argv| argv.first().is_some_and(|name| !name.is_empty()));
    check.take(argv.ok_or_else(|| entry.wrong(key, EXPECTED)))
}
