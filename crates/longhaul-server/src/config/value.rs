//! Configured values with their origins, before they are parsed to the types of settings.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use longhaul::job::Name;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};

pub(super) type Table = BTreeMap<String, ConfigEntry>;

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigEntry {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Switch(bool),
    List(Vec<ConfigEntry>),
    Table(Table),
    /// Name of a type that no setting has: a date or a fraction.
    Other(&'static str),
}

/// Parses TOML; `at` maps a byte offset to an origin.
pub(super) fn parse(text: &str, at: &dyn Fn(usize) -> Origin) -> Result<Table, Vec<ConfigError>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let wrong = |error: &toml::de::Error| {
        ConfigError::new(&at(error.span().map_or(0, |span| span.start)), error.message())
    };
    if errors.is_empty() {
        Ok(table(root.get_ref(), at))
    } else {
        Err(errors.iter().map(wrong).collect())
    }
}

/// Maps byte offsets in a file to lines.
pub(super) fn lines_of<'a>(path: &'a Arc<Path>, text: &'a str) -> impl Fn(usize) -> Origin + 'a {
    move |offset| {
        let before = text.get(..offset).unwrap_or(text);
        Origin::File(Arc::clone(path), before.matches('\n').count() + 1)
    }
}

fn table(table: &DeTable<'_>, at: &dyn Fn(usize) -> Origin) -> Table {
    let entries = table.iter().map(|(key, value)| {
        let entry =
            ConfigEntry { value: value_of(value.get_ref(), at), origin: at(key.span().start) };
        (key.get_ref().to_string(), entry)
    });
    entries.collect()
}

fn value_of(value: &DeValue<'_>, at: &dyn Fn(usize) -> Origin) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("a number that is too large"), Value::Whole),
        DeValue::Boolean(switch) => Value::Switch(*switch),
        DeValue::Array(items) => {
            let entry = |item: &toml::Spanned<DeValue<'_>>| ConfigEntry {
                value: value_of(item.get_ref(), at),
                origin: at(item.span().start),
            };
            Value::List(items.iter().map(entry).collect())
        }
        DeValue::Table(inner) => Value::Table(table(inner, at)),
        DeValue::Float(_) => Value::Other("a fraction"),
        DeValue::Datetime(_) => Value::Other("a date"),
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{:?}", redact(text)),
            Self::Whole(number) => number.fmt(f),
            Self::Switch(switch) => switch.fmt(f),
            Self::List(_) => f.write_str("a list"),
            Self::Table(_) => f.write_str("a table"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// Removes user and password from a URL: everything between `://` and the last `@`, so that it also
/// works for URLs that cannot be parsed.
fn redact(text: &str) -> String {
    let parts =
        text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?)));
    match parts {
        Some((scheme, (_, host))) => format!("{scheme}://***@{host}"),
        None => text.to_owned(),
    }
}

/// Typed access; `key` names the value in the error.
impl ConfigEntry {
    pub(super) fn as_text(&self) -> Option<&str> {
        let Value::Text(text) = &self.value else { return None };
        Some(text)
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, ConfigError> {
        self.as_text().ok_or_else(|| self.wrong(key, "a text in quotes"))
    }

    pub(super) fn whole(&self) -> Option<i64> {
        let Value::Whole(number) = self.value else { return None };
        Some(number)
    }

    pub(super) fn list(&self, key: &str) -> Result<&[ConfigEntry], ConfigError> {
        let Value::List(items) = &self.value else {
            return Err(self.wrong(key, "a list in brackets"));
        };
        Ok(items)
    }

    pub(super) fn table(&self, key: &str) -> Result<&Table, ConfigError> {
        let Value::Table(table) = &self.value else { return Err(self.wrong(key, "a table")) };
        Ok(table)
    }

    pub(super) fn name(&self, key: &str) -> Result<Name, ConfigError> {
        Name::new(self.text(key)?).map_err(|error| self.refused(key, error))
    }

    /// Error for a value of the wrong type, form or range.
    pub(super) fn wrong(&self, key: &str, expected: impl fmt::Display) -> ConfigError {
        ConfigError::new(&self.origin, format!("`{key}` is {}; expected {expected}", self.value))
    }

    /// Error without the value, which may be a secret.
    pub(super) fn error(&self, key: &str, reason: impl fmt::Display) -> ConfigError {
        ConfigError::new(&self.origin, format!("`{key}`: {reason}"))
    }

    /// Error for a well-formed value that is not allowed.
    pub(super) fn refused(&self, key: &str, reason: impl fmt::Display) -> ConfigError {
        ConfigError::new(&self.origin, format!("`{key}` is {}: {reason}", self.value))
    }
}
