//! Environment variables inside of configured values.

use std::ffi::OsString;

use super::error::ConfigError;
use super::value::ConfigEntry;

/// Values for `${NAME}`.
pub(super) struct Variables<'a> {
    env: &'a [(OsString, OsString)],
    /// True if this process uses the values; otherwise a missing variable is no error.
    needed: bool,
}

impl<'a> Variables<'a> {
    pub(super) fn of(env: &'a [(OsString, OsString)], needed: bool) -> Self {
        Self { env, needed }
    }

    /// Returns the text with its variables replaced. No error contains a value.
    pub(super) fn filled(&self, entry: &ConfigEntry, key: &str) -> Result<String, ConfigError> {
        let mut filled = String::new();
        let mut rest = entry.text(key)?;
        while let Some((before, after)) = rest.split_once("${") {
            let open =
                || ConfigError::new(&entry.origin, format!("`{key}` has a ${{ without a }}"));
            let (name, after) = after.split_once('}').ok_or_else(open)?;
            filled.push_str(before);
            let value = self.value(name).map_err(|reason| {
                entry.error(key, format!("the environment variable {name} {reason}"))
            })?;
            filled.push_str(&value);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value(&self, name: &str) -> Result<String, &'static str> {
        match self.env.iter().find(|(known, _)| known == name) {
            Some((_, value)) => value.to_str().map(str::to_owned).ok_or("is not UTF-8"),
            None if self.needed => Err("is not set"),
            None => Ok("unset".to_owned()),
        }
    }
}
