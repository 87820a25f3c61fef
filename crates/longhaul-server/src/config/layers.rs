//! Merge of defaults, file, environment and flags; later layers override earlier ones.
//!
//! Values keep their origin and are not deserialized with serde, because serde stops at the first
//! error and loses the line.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::document::default_file;
use super::error::{ConfigError, Origin, hint, nearest};
use super::value::{ConfigEntry, Table, Value, lines_of, parse};
use super::{Flags, Sources};

/// `LONGHAUL_…` variables that are not settings: they belong to clients and to the programs of
/// jobs, and `LONGHAUL_LOG` is read separately.
const OTHER_VARIABLES: [&str; 8] = [
    "LONGHAUL_SERVER",
    "LONGHAUL_API_KEY",
    "LONGHAUL_WEBHOOK_SECRET",
    "LONGHAUL_JOB_ID",
    "LONGHAUL_ATTEMPT",
    "LONGHAUL_PAYLOAD",
    "LONGHAUL_ARTIFACTS",
    LOG_VARIABLE,
];

/// Overrides `log.level`.
pub(super) const LOG_VARIABLE: &str = "LONGHAUL_LOG";

/// All settings by dotted key, the declared tables, and the errors found so far.
pub(super) struct Layers {
    pub(super) settings: Table,
    pub(super) kinds: Table,
    pub(super) queues: Table,
    pub(super) proxies: Vec<ConfigEntry>,
    pub(super) log_filter: Option<ConfigEntry>,
    pub(super) errors: Vec<ConfigError>,
}

impl Layers {
    pub(super) fn of(sources: &Sources) -> Self {
        let mut layers = Self::defaults();
        layers.add_file(sources);
        layers.add_env(&sources.env);
        layers.add_flags(&sources.flags);
        layers
    }

    pub(super) fn defaults() -> Self {
        let (root, errors) = match parse(&default_file(), &|_| Origin::Default) {
            Ok(root) => (root, Vec::new()),
            Err(errors) => (Table::new(), errors),
        };
        let settings = flatten(root).collect();
        let (kinds, queues, proxies) = (Table::new(), Table::new(), Vec::new());
        Self { settings, kinds, queues, proxies, log_filter: None, errors }
    }

    fn add_file(&mut self, sources: &Sources) {
        let path: Arc<Path> = match &sources.file {
            Some(named) => named.as_path().into(),
            None => sources.folder.join("longhaul.toml").into(),
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && sources.file.is_none() => return,
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                self.errors.push(ConfigError::new(&Origin::Flag("--config"), message));
                return;
            }
        };
        match parse(&text, &lines_of(&path, &text)) {
            Ok(root) => self.add_document(root),
            Err(mut errors) => self.errors.append(&mut errors),
        }
    }

    pub(super) fn add_document(&mut self, mut root: Table) {
        for (section, tables) in [("kinds", &mut self.kinds), ("queues", &mut self.queues)] {
            match root.remove(section).map(|entry| entry.table(section).cloned()) {
                Some(Ok(declared)) => *tables = declared,
                Some(Err(error)) => self.errors.push(error),
                None => {}
            }
        }
        match root
            .remove("proxy")
            .map(|entry| (entry.list("proxy").map(<[ConfigEntry]>::to_vec), entry))
        {
            Some((Ok(declared), _)) => self.proxies = declared,
            Some((Err(_), entry)) => {
                self.errors.push(entry.wrong("proxy", "tables, each of them below [[proxy]]"));
            }
            None => {}
        }
        // An unknown section is one error, not one per key.
        root.retain(|name, entry| {
            let wrong = matches!(entry.value, Value::Table(_)) && !self.is_section(name);
            if wrong {
                self.errors.push(self.unknown(name, &entry.origin));
            }
            !wrong
        });
        for (key, entry) in flatten(root) {
            self.set(&key, entry);
        }
    }

    fn add_env(&mut self, variables: &[(OsString, OsString)]) {
        for (name, value) in variables {
            let Some(name) = name.to_str().filter(|name| name.starts_with("LONGHAUL_")) else {
                continue;
            };
            let origin = Origin::Env(name.to_owned());
            let Some(text) = value.to_str() else {
                self.errors.push(ConfigError::new(&origin, "the value is not UTF-8"));
                continue;
            };
            let key = self.settings.keys().find(|key| variable(key) == name).cloned();
            match key {
                Some(key) => self.set_text(&key, text, origin),
                None if name == LOG_VARIABLE => {
                    self.log_filter =
                        Some(ConfigEntry { value: Value::Text(text.to_owned()), origin });
                }
                None if OTHER_VARIABLES.contains(&name) => {}
                None => {
                    let known: Vec<String> =
                        self.settings.keys().map(|key| variable(key)).collect();
                    let near = nearest(name, known.iter().map(String::as_str));
                    let message = format!("unknown environment variable{}", hint(near));
                    self.errors.push(ConfigError::new(&origin, message));
                }
            }
        }
    }

    fn add_flags(&mut self, flags: &Flags) {
        let flags = [
            ("--listen", "listen", &flags.listen),
            ("--data", "data", &flags.data),
            ("--database", "database", &flags.database),
            ("--wait-for-database", "wait_for_database", &flags.wait_for_database),
            ("--blobs", "blobs", &flags.blobs),
            ("--role", "role", &flags.role),
            ("--replica", "replica", &flags.replica),
        ];
        for (flag, key, value) in flags {
            if let Some(text) = value {
                self.set_text(key, text, Origin::Flag(flag));
            }
        }
    }

    /// Sets a value from text, converted to the type of the default.
    fn set_text(&mut self, key: &str, text: &str, origin: Origin) {
        let text_value = || Value::Text(text.to_owned());
        let value = match self.settings.get(key).map(|entry| &entry.value) {
            Some(Value::Whole(_)) => text.parse().map_or_else(|_| text_value(), Value::Whole),
            Some(Value::Switch(_)) => text.parse().map_or_else(|_| text_value(), Value::Switch),
            Some(Value::Text(_) | Value::List(_) | Value::Table(_) | Value::Other(_)) | None => {
                text_value()
            }
        };
        self.set(key, ConfigEntry { value, origin });
    }

    fn set(&mut self, key: &str, entry: ConfigEntry) {
        match self.settings.get_mut(key) {
            Some(known) => *known = entry,
            None => self.errors.push(self.unknown(key, &entry.origin)),
        }
    }

    fn is_section(&self, name: &str) -> bool {
        self.settings
            .keys()
            .any(|key| key.split_once('.').is_some_and(|(section, _)| section == name))
    }

    fn unknown(&self, key: &str, origin: &Origin) -> ConfigError {
        let sections =
            self.settings.keys().filter_map(|known| known.split_once('.')).map(|(name, _)| name);
        let known = self
            .settings
            .keys()
            .map(String::as_str)
            .chain(sections)
            .chain(["kinds", "proxy", "queues"]);
        // A key in the wrong section is as common as a typing error.
        let elsewhere = || {
            let last = key.rsplit('.').next();
            let same = self.settings.keys().filter(|known| known.rsplit('.').next() == last);
            let same: Vec<&str> = same.map(String::as_str).collect();
            (!same.is_empty()).then(|| same.join("` or `"))
        };
        let near = nearest(key, known).map(str::to_owned).or_else(elsewhere);
        ConfigError::new(origin, format!("unknown key `{key}`{}", hint(near.as_deref())))
    }
}

/// Returns the environment variable of a key.
pub(super) fn variable(key: &str) -> String {
    format!("LONGHAUL_{}", key.replace('.', "_").to_uppercase())
}

/// Turns `[section] key` into `section.key`; no setting is deeper.
fn flatten(root: Table) -> impl Iterator<Item = (String, ConfigEntry)> {
    root.into_iter().flat_map(|(name, entry)| match entry.value {
        Value::Table(section) => {
            section.into_iter().map(|(key, entry)| (format!("{name}.{key}"), entry)).collect()
        }
        Value::Text(_) | Value::Whole(_) | Value::Switch(_) | Value::List(_) | Value::Other(_) => {
            vec![(name, entry)]
        }
    })
}
