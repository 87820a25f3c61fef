//! Values as they were given, each with its origin, and how they become real types.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longhaul::job::Rate;
use longhaul::job::{format_duration, parse_duration};
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::units::{format_bytes, parse_bytes};

/// The time that a rate may be about.
const RATE_PER: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_hours(24 * 366);

/// A table's entries by name.
pub(super) type Table = BTreeMap<String, Entry>;

/// A value and where it was given.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// What settings are made of.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Switch(bool),
    List(Vec<Entry>),
    Table(Table),
    /// A date or a fraction, which no setting is; the type's name.
    Other(&'static str),
}

/// Reads TOML; `at` turns a place in the text into an origin.
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

/// Turns places in a file's text into its lines.
pub(super) fn lines_of<'a>(path: &'a Arc<Path>, text: &'a str) -> impl Fn(usize) -> Origin + 'a {
    move |offset| {
        let before = text.get(..offset).unwrap_or(text);
        Origin::File(Arc::clone(path), before.matches('\n').count() + 1)
    }
}

fn table(table: &DeTable<'_>, at: &dyn Fn(usize) -> Origin) -> Table {
    let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let key: &toml::Spanned<std::borrow::Cow<'_, str>> = key;
        let entry = Entry { value: value_of(value.get_ref(), at), origin: at(key.span().start) };
        (key.get_ref().to_string(), entry)
    };
    table.iter().map(entry).collect()
}

fn value_of(value: &DeValue<'_>, at: &dyn Fn(usize) -> Origin) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("a number that is too large"), Value::Whole),
        DeValue::Boolean(switch) => Value::Switch(*switch),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| Entry {
                    value: value_of(item.get_ref(), at),
                    origin: at(item.span().start),
                })
                .collect(),
        ),
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

/// Takes user and password out of a URL, also where the URL is none that we can read: everything
/// between `://` and the last `@`.
fn redact(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => match rest.rsplit_once('@') {
            Some((_, host)) => format!("{scheme}://***@{host}"),
            None => text.to_owned(),
        },
        None => text.to_owned(),
    }
}

/// Reading an entry as a type; `key` is what the error calls it.
impl Entry {
    pub(super) fn text(&self, key: &str) -> Result<&str, ConfigError> {
        match &self.value {
            Value::Text(text) => Ok(text),
            Value::Whole(_)
            | Value::Switch(_)
            | Value::List(_)
            | Value::Table(_)
            | Value::Other(_) => Err(self.wrong(key, "a text in quotes")),
        }
    }

    pub(super) fn switch(&self, key: &str) -> Result<bool, ConfigError> {
        match &self.value {
            Value::Switch(switch) => Ok(*switch),
            Value::Text(_)
            | Value::Whole(_)
            | Value::List(_)
            | Value::Table(_)
            | Value::Other(_) => Err(self.wrong(key, "true or false")),
        }
    }

    pub(super) fn count(&self, key: &str, range: RangeInclusive<u32>) -> Result<u32, ConfigError> {
        let number = match &self.value {
            Value::Whole(number) => u32::try_from(*number).ok(),
            Value::Text(_)
            | Value::Switch(_)
            | Value::List(_)
            | Value::Table(_)
            | Value::Other(_) => None,
        };
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let (start, end) = range.into_inner();
            self.wrong(key, format!("a whole number from {start} to {end}"))
        })
    }

    pub(super) fn duration(
        &self,
        key: &str,
        range: RangeInclusive<Duration>,
    ) -> Result<Duration, ConfigError> {
        let duration = self.text(key).ok().and_then(|text| parse_duration(text).ok());
        duration.filter(|duration| range.contains(duration)).ok_or_else(|| {
            let (start, end) = (format_duration(*range.start()), format_duration(*range.end()));
            self.wrong(
                key,
                format!("a duration from {start} to {end}, such as \"15s\" or \"1h30m\""),
            )
        })
    }

    /// So many jobs in so much time, as in `100/1m`.
    pub(super) fn rate(&self, key: &str) -> Result<Rate, ConfigError> {
        let read = |text: &str| {
            let (jobs, per) = text.split_once('/')?;
            let (jobs, per) = (jobs.parse().ok()?, parse_duration(per).ok()?);
            Some(Rate { jobs, per }).filter(|rate| rate.jobs > 0 && RATE_PER.contains(&rate.per))
        };
        self.text(key).ok().and_then(read).ok_or_else(|| {
            self.wrong(key, "so many jobs in so much time, such as \"100/1m\" or \"1/500ms\"")
        })
    }

    pub(super) fn bytes(&self, key: &str, range: RangeInclusive<u64>) -> Result<u64, ConfigError> {
        let bytes = self.text(key).ok().and_then(parse_bytes);
        bytes.filter(|bytes| range.contains(bytes)).ok_or_else(|| {
            let (start, end) = (format_bytes(*range.start()), format_bytes(*range.end()));
            self.wrong(key, format!("a size from {start} to {end}, such as \"500KiB\" or \"1MiB\""))
        })
    }

    pub(super) fn list(&self, key: &str) -> Result<&[Entry], ConfigError> {
        match &self.value {
            Value::List(items) => Ok(items),
            Value::Text(_)
            | Value::Whole(_)
            | Value::Switch(_)
            | Value::Table(_)
            | Value::Other(_) => Err(self.wrong(key, "a list in brackets")),
        }
    }

    pub(super) fn table(&self, key: &str) -> Result<&Table, ConfigError> {
        match &self.value {
            Value::Table(table) => Ok(table),
            Value::Text(_)
            | Value::Whole(_)
            | Value::Switch(_)
            | Value::List(_)
            | Value::Other(_) => Err(self.wrong(key, "a table")),
        }
    }

    /// This value is not what the key takes.
    pub(super) fn wrong(&self, key: &str, expected: impl fmt::Display) -> ConfigError {
        ConfigError::new(&self.origin, format!("`{key}` is {}; expected {expected}", self.value))
    }

    /// This value cannot be, whatever its form.
    pub(super) fn refused(&self, key: &str, why: impl fmt::Display) -> ConfigError {
        ConfigError::new(&self.origin, format!("`{key}` is {}: {why}", self.value))
    }
}
