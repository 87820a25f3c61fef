//! Reader for tables that are declared by name, for example `[kinds.NAME]`.

use std::collections::BTreeMap;

use longhaul::job::Name;

use super::check::Check;
use super::error::{ConfigError, hint, nearest};
use super::schema::ValueType;
use super::value::{ConfigEntry, Table};

/// Reads the keys of one table and records its errors.
pub(super) struct TableReader<'a> {
    pub(super) check: &'a mut Check,
    /// Key of the table, for example `kinds.resize`.
    pub(super) key: &'a str,
    entry: &'a ConfigEntry,
    table: &'a Table,
    /// Names of the values that were read, present or not.
    known: Vec<&'static str>,
}

/// Reads a table, and records every key that `read` does not know. `read` must read all values
/// before it returns.
pub(super) fn read_table<T>(
    check: &mut Check,
    key: &str,
    entry: &ConfigEntry,
    read: impl FnOnce(&mut TableReader<'_>) -> Option<T>,
) -> Option<T> {
    let table = check.take(entry.table(key))?;
    let errors_before = check.errors.len();
    let mut reader = TableReader { check, key, entry, table, known: Vec::new() };
    let value = read(&mut reader);
    let known = reader.known;
    let unknown = table.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    let unknown = unknown.map(|(name, entry)| {
        let near = hint(nearest(name, known.iter().copied()));
        ConfigError::new(&entry.origin, format!("unknown key `{key}.{name}`{near}"))
    });
    // Reported first, because a misspelled key can explain the other errors.
    check.errors.splice(errors_before..errors_before, unknown);
    value
}

/// Reads the tables `[section.NAME]`. Returns the valid ones, and records the errors of the others.
pub(super) fn read_named_tables<T>(
    check: &mut Check,
    section: &str,
    tables: &Table,
    read: impl Fn(&mut TableReader<'_>) -> Option<T>,
) -> BTreeMap<Name, T> {
    let mut valid = BTreeMap::new();
    for (name, entry) in tables {
        let key = format!("{section}.{name}");
        let name = check.take(Name::new(name).map_err(|reason| entry.error(&key, reason)));
        valid.extend(name.zip(read_table(check, &key, entry, &read)));
    }
    valid
}

impl<'a> TableReader<'a> {
    /// Returns a value unread.
    pub(super) fn get(&mut self, name: &'static str) -> Option<&'a ConfigEntry> {
        self.known.push(name);
        self.table.get(name)
    }

    /// Reads a value. `None` if the table does not have it or if it is wrong.
    pub(super) fn value<T>(&mut self, name: &'static str, value_type: &ValueType<T>) -> Option<T> {
        self.value_with(name, |entry, key| value_type.parse(entry, key))
    }

    pub(super) fn value_with<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&ConfigEntry, &str) -> Result<T, ConfigError>,
    ) -> Option<T> {
        self.optional(name, parse).flatten()
    }

    /// Reads a value. `None` if it is wrong, `Some(None)` if the table does not have it.
    #[expect(clippy::option_option, reason = "wrong and absent are two things")]
    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&ConfigEntry, &str) -> Result<T, ConfigError>,
    ) -> Option<Option<T>> {
        let Some(entry) = self.get(name) else { return Some(None) };
        self.check.take(parse(entry, &format!("{}.{name}", self.key))).map(Some)
    }

    /// Records the keys that the table lacks; `table` names it in the error.
    pub(super) fn require(&mut self, keys: &[&str], table: &str) {
        for key in keys.iter().filter(|key| !self.table.contains_key(**key)) {
            self.error(format!("{table} needs `{key}`"));
        }
    }

    /// Records an error about the table as a whole.
    pub(super) fn error(&mut self, message: String) {
        self.check.error(&self.entry.origin, message);
    }
}
