//! Value types of settings, and the `settings!` macro that declares each setting once.
//!
//! From one declaration come the typed field, the parser with its error message, the line in
//! `config.default.toml`, the environment variable and the row in `docs/configuration.md`.

use std::ops::RangeInclusive;
use std::time::Duration;

use longhaul::job::{Name, Rate, format_duration, parse_duration};

use super::error::ConfigError;
use super::units::{format_bytes, parse_bytes};
use super::value::{ConfigEntry, Value};

/// Periods that a rate may be given for.
const RATE_PERIOD: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_hours(24 * 366);

/// A table of `config.default.toml`; the first one has no name and holds the top-level settings.
pub(super) struct SettingsSection {
    pub(super) name: &'static str,
    pub(super) settings: Vec<Setting>,
}

pub(super) struct Setting {
    /// Dotted, for example `lease.duration`.
    pub(super) key: &'static str,
    /// As written in TOML.
    pub(super) default: &'static str,
    pub(super) docs: &'static [&'static str],
    pub(super) expected: String,
    pub(super) is_secret: bool,
}

/// Allowed values, and their conversion to the type of a field.
pub(super) struct ValueType<T> {
    /// Allowed values, as error messages and the reference page show them.
    pub(super) expected: String,
    /// True if no output shows the value.
    pub(super) is_secret: bool,
    parse: ParseFn<T>,
}

type ParseFn<T> = Box<dyn Fn(&ConfigEntry, &str) -> Result<T, ConfigError>>;

macro_rules! settings {
    ($(
        $(#[doc = $section_doc:literal])+
        $section:literal => $visibility:vis $name:ident {$(
            $(#[doc = $doc:literal])+
            $field:ident: $type:ty = $default:tt, $value_type:expr;
        )+}
    )+) => {
        $(
            $(#[doc = $section_doc])+
            #[allow(
                clippy::doc_link_with_quotes,
                clippy::doc_markdown,
                rustdoc::bare_urls,
                rustdoc::broken_intra_doc_links,
                reason = "the documentation is for a TOML file"
            )]
            #[derive(Debug, Clone, PartialEq, Eq)]
            $visibility struct $name {$(
                $(#[doc = $doc])+
                $visibility $field: $type,
            )+}

            impl $name {
                /// Reads every key before the first `?`, so that all errors are found.
                pub(super) fn read(check: &mut Check) -> Option<Self> {
                    $(let $field: Option<$type> =
                        check.setting(concat!($section, stringify!($field)), &$value_type);)+
                    Some(Self { $($field: $field?,)+ })
                }
            }
        )+

        /// All settings in the order of the default file.
        pub(super) fn sections() -> Vec<SettingsSection> {
            vec![$(SettingsSection {
                name: $section.trim_end_matches('.'),
                settings: vec![$({
                    let value_type: ValueType<$type> = $value_type;
                    Setting {
                        key: concat!($section, stringify!($field)),
                        default: stringify!($default),
                        docs: &[$($doc),+],
                        expected: value_type.expected,
                        is_secret: value_type.is_secret,
                    }
                }),+],
            }),+]
        }
    };
}
pub(super) use settings;

impl<T: 'static> ValueType<T> {
    /// Creates a type whose parser reports its own errors.
    pub(super) fn new(
        expected: impl Into<String>,
        parse: impl Fn(&ConfigEntry, &str) -> Result<T, ConfigError> + 'static,
    ) -> Self {
        Self { expected: expected.into(), is_secret: false, parse: Box::new(parse) }
    }

    /// Creates a type whose error message shows the allowed values.
    fn matching(
        expected: impl Into<String>,
        parse: impl Fn(&ConfigEntry) -> Option<T> + 'static,
    ) -> Self {
        let expected = expected.into();
        let shown = expected.clone();
        Self::new(expected, move |entry, key| parse(entry).ok_or_else(|| entry.wrong(key, &shown)))
    }

    /// Creates a type of texts.
    pub(super) fn text(
        expected: impl Into<String>,
        parse: impl Fn(&str) -> Option<T> + 'static,
    ) -> Self {
        let expected = expected.into();
        let shown = expected.clone();
        Self::new(expected, move |entry, key| {
            parse(entry.text(key)?).ok_or_else(|| entry.wrong(key, &shown))
        })
    }

    pub(super) fn map<U: 'static>(self, convert: impl Fn(T) -> U + 'static) -> ValueType<U> {
        ValueType::new(self.expected, move |entry, key| (self.parse)(entry, key).map(&convert))
    }

    pub(super) fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }
}

impl<T> ValueType<T> {
    pub(super) fn parse(&self, entry: &ConfigEntry, key: &str) -> Result<T, ConfigError> {
        (self.parse)(entry, key)
    }
}

pub(super) fn switch() -> ValueType<bool> {
    ValueType::matching("true or false", |entry| {
        let Value::Switch(switch) = entry.value else { return None };
        Some(switch)
    })
}

/// Any text; empty if the setting is not used.
pub(super) fn text() -> ValueType<String> {
    ValueType::text("a text in quotes", |text| Some(text.to_owned()))
}

pub(super) fn count<T: TryFrom<u32> + 'static>(range: RangeInclusive<u32>) -> ValueType<T> {
    let expected = format!("a whole number from {} to {}", range.start(), range.end());
    ValueType::matching(expected, move |entry| {
        let number = u32::try_from(entry.whole()?).ok().filter(|number| range.contains(number))?;
        T::try_from(number).ok()
    })
}

/// A whole number from 0, with 0 for no limit.
pub(super) fn limit_up_to(max: u32) -> ValueType<Option<u32>> {
    count(0..=max).map(|limit| Some(limit).filter(|limit| *limit > 0))
}

/// A number of bytes with a unit, for example `1MiB`.
pub(super) fn size<T: TryFrom<u64> + 'static>(range: RangeInclusive<u64>) -> ValueType<T> {
    let (start, end) = (format_bytes(*range.start()), format_bytes(*range.end()));
    let expected = format!("a size from {start} to {end}, such as \"500KiB\" or \"1MiB\"");
    ValueType::matching(expected, move |entry| {
        let bytes = parse_bytes(entry.as_text()?).filter(|bytes| range.contains(bytes))?;
        T::try_from(bytes).ok()
    })
}

/// A duration with units, for example `1h30m`.
pub(super) fn span(range: RangeInclusive<Duration>) -> ValueType<Duration> {
    let (start, end) = (format_duration(*range.start()), format_duration(*range.end()));
    let expected = format!("a duration from {start} to {end}, such as \"15s\" or \"1h30m\"");
    ValueType::matching(expected, move |entry| {
        parse_duration(entry.as_text()?).ok().filter(|duration| range.contains(duration))
    })
}

/// Jobs per duration, for example `100/1m`.
pub(super) fn rate() -> ValueType<Rate> {
    let expected = "a number of jobs per duration, such as \"100/1m\" or \"1/500ms\"";
    ValueType::matching(expected, |entry| {
        let (jobs, per) = entry.as_text()?.split_once('/')?;
        let rate = Rate { jobs: jobs.parse().ok()?, per: parse_duration(per).ok()? };
        Some(rate).filter(|rate| rate.jobs > 0 && RATE_PERIOD.contains(&rate.per))
    })
}

/// Another type, or an empty text for `None`.
pub(super) fn optional<T: 'static>(value_type: ValueType<T>) -> ValueType<Option<T>> {
    ValueType::new(value_type.expected, move |entry, key| match entry.as_text() {
        Some("") => Ok(None),
        Some(_) | None => (value_type.parse)(entry, key).map(Some),
    })
}

/// A fixed set of words.
pub(super) fn one_of<T: Clone>(words: &'static [(&'static str, T)]) -> ValueType<T> {
    let shown: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    let expected = match shown.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        Some(_) | None => shown.concat(),
    };
    ValueType::text(expected, |text| {
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| value.clone())
    })
}

pub(super) fn name() -> ValueType<Name> {
    ValueType::new("a name", ConfigEntry::name)
}

/// Values that a later stage parses, because they depend on others.
pub(super) fn unparsed(expected: &str) -> ValueType<ConfigEntry> {
    ValueType::new(expected, |entry, _| Ok(entry.clone()))
}
