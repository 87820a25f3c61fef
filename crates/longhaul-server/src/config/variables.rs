//! Values that stand in the environment and not in a file.

use std::ffi::OsString;

use super::error::ConfigError;
use super::value::Entry;

/// What `${NAME}` stands for.
pub(super) struct Variables<'a> {
    env: &'a [(OsString, OsString)],
    /// Whether they are needed in this process.
    needed: bool,
}

impl<'a> Variables<'a> {
    pub(super) fn of(env: &'a [(OsString, OsString)], needed: bool) -> Self {
        Self { env, needed }
    }

    /// The text with the environment's values in it. No error has any of them in it.
    pub(super) fn filled(&self, entry: &Entry, key: &str) -> Result<String, ConfigError> {
        let mut filled = String::new();
        let mut rest = entry.text(key)?;
        while let Some((before, behind)) = rest.split_once("${") {
            let open =
                || ConfigError::new(&entry.origin, format!("`{key}` has a ${{ without a }}"));
            let (name, behind) = behind.split_once('}').ok_or_else(open)?;
            filled.push_str(before);
            filled.push_str(&self.value(name).map_err(|why| {
                let why = format!("`{key}`: the environment variable {name} {why}");
                ConfigError::new(&entry.origin, why)
            })?);
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value(&self, name: &str) -> Result<String, &'static str> {
        match self.env.iter().find(|(known, _)| known == name) {
            Some((_, value)) => value.to_str().map(str::to_owned).ok_or("is not UTF-8"),
            None if self.needed => Err("is not set"),
            // In place of what this process never sends.
            None => Ok("unset".to_owned()),
        }
    }
}
