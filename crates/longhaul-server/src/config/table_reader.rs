//! Reader for tables that are declared by name, for example `[kinds.NAME]`.

use super::check::Check;
use super::error::{ConfigError, hint, nearest};
use super::schema::Parse;
use super::value::{Entry, Table};

/// Reads the keys of one table and records its errors.
pub(super) struct TableReader<'a> {
    pub(super) check: &'a mut Check,
    /// Key of the table, for example `kinds.resize`.
    pub(super) key: &'a str,
    pub(super) entry: &'a Entry,
    pub(super) table: &'a Table,
}

impl<'a> TableReader<'a> {
    /// Returns a reader for a table, and records every key that is not in `known`.
    pub(super) fn new(
        check: &'a mut Check,
        key: &'a str,
        entry: &'a Entry,
        known: &[&str],
    ) -> Option<Self> {
        let table = check.take(entry.table(key))?;
        for (name, unknown) in table.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let near = hint(nearest(name, known.iter().copied()));
            check.error(&unknown.origin, format!("unknown key `{key}.{name}`{near}"));
        }
        Some(Self { check, key, entry, table })
    }

    /// Reads a value. `None` if the table does not have it or if it is wrong.
    pub(super) fn value<T>(&mut self, name: &str, value_type: &impl Parse<T>) -> Option<T> {
        self.value_with(name, |entry, key| value_type.parse(entry, key))
    }

    pub(super) fn value_with<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&Entry, &str) -> Result<T, ConfigError>,
    ) -> Option<T> {
        self.optional(name, parse).flatten()
    }

    /// Reads a value. `None` if it is wrong, `Some(None)` if the table does not have it.
    #[expect(clippy::option_option, reason = "wrong and absent are two things")]
    pub(super) fn optional<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&Entry, &str) -> Result<T, ConfigError>,
    ) -> Option<Option<T>> {
        let Some(entry) = self.table.get(name) else { return Some(None) };
        self.check.take(parse(entry, &format!("{}.{name}", self.key))).map(Some)
    }

    /// Records an error about the table as a whole.
    pub(super) fn error(&mut self, message: String) {
        self.check.error(&self.entry.origin, message);
    }
}
