//! Value types of settings, and the `settings!` macro that declares each setting once.
//!
//! From one declaration come the typed field, the parser with its error message, the line in
//! `config.default.toml`, the environment variable and the row in `docs/configuration.md`.

use std::ops::RangeInclusive;
use std::time::Duration;

use longhaul::job::Rate;
use longhaul::job::{format_duration, parse_duration};

use super::error::ConfigError;
use super::units::{format_bytes, parse_bytes};
use super::value::{Entry, Value};

/// Periods that a rate may be given for.
const RATE_PERIOD: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_hours(24 * 366);

/// A table of `config.default.toml`; the first one has no name and holds the top-level settings.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) settings: Vec<Setting>,
}

pub(super) struct Setting {
    /// Dotted, for example `lease.duration`.
    pub(super) key: &'static str,
    /// As written in TOML.
    pub(super) default: &'static str,
    pub(super) docs: &'static [&'static str],
    /// Allowed values, as error messages and the reference page show them.
    pub(super) expected: String,
    pub(super) is_secret: bool,
}

/// Set of allowed values.
pub(super) trait ValueType {
    fn expected(&self) -> String;

    fn is_secret(&self) -> bool {
        false
    }
}

/// Conversion of a configured value to the type of a field.
pub(super) trait Parse<T>: ValueType {
    fn parse(&self, entry: &Entry, key: &str) -> Result<T, ConfigError>;
}

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
        pub(super) fn sections() -> Vec<Section> {
            vec![$(Section {
                name: $section.trim_end_matches('.'),
                settings: vec![$(Setting {
                    key: concat!($section, stringify!($field)),
                    default: stringify!($default),
                    docs: &[$($doc),+],
                    expected: ValueType::expected(&$value_type),
                    is_secret: ValueType::is_secret(&$value_type),
                }),+],
            }),+]
        }
    };
}
pub(super) use settings;

pub(super) struct Switch;

impl ValueType for Switch {
    fn expected(&self) -> String {
        "true or false".to_owned()
    }
}

impl Parse<bool> for Switch {
    fn parse(&self, entry: &Entry, key: &str) -> Result<bool, ConfigError> {
        let Value::Switch(switch) = entry.value else {
            return Err(entry.wrong(key, self.expected()));
        };
        Ok(switch)
    }
}

/// Any text; empty if the setting is not used.
pub(super) struct Text;

impl ValueType for Text {
    fn expected(&self) -> String {
        "a text in quotes".to_owned()
    }
}

impl Parse<String> for Text {
    fn parse(&self, entry: &Entry, key: &str) -> Result<String, ConfigError> {
        entry.text(key).map(str::to_owned)
    }
}

/// Text that no output shows.
pub(super) struct SecretText;

impl ValueType for SecretText {
    fn expected(&self) -> String {
        Text.expected()
    }

    fn is_secret(&self) -> bool {
        true
    }
}

impl Parse<Entry> for SecretText {
    fn parse(&self, entry: &Entry, _: &str) -> Result<Entry, ConfigError> {
        Ok(entry.clone())
    }
}

impl Parse<String> for SecretText {
    fn parse(&self, entry: &Entry, key: &str) -> Result<String, ConfigError> {
        Text.parse(entry, key)
    }
}

/// A whole number.
pub(super) struct Count(pub(super) RangeInclusive<u32>);

impl ValueType for Count {
    fn expected(&self) -> String {
        format!("a whole number from {} to {}", self.0.start(), self.0.end())
    }
}

impl<T: TryFrom<u32>> Parse<T> for Count {
    fn parse(&self, entry: &Entry, key: &str) -> Result<T, ConfigError> {
        let number = entry.whole().and_then(|number| u32::try_from(number).ok());
        let number = number.filter(|number| self.0.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| entry.wrong(key, self.expected()))
    }
}

/// A whole number from 0, with 0 for no limit.
pub(super) struct LimitUpTo(pub(super) u32);

impl ValueType for LimitUpTo {
    fn expected(&self) -> String {
        Count(0..=self.0).expected()
    }
}

impl Parse<Option<u32>> for LimitUpTo {
    fn parse(&self, entry: &Entry, key: &str) -> Result<Option<u32>, ConfigError> {
        Count(0..=self.0).parse(entry, key).map(|limit| Some(limit).filter(|limit| *limit > 0))
    }
}

/// A number of bytes with a unit, for example `1MiB`.
pub(super) struct Size(pub(super) RangeInclusive<u64>);

impl ValueType for Size {
    fn expected(&self) -> String {
        let (start, end) = (format_bytes(*self.0.start()), format_bytes(*self.0.end()));
        format!("a size from {start} to {end}, such as \"500KiB\" or \"1MiB\"")
    }
}

impl<T: TryFrom<u64>> Parse<T> for Size {
    fn parse(&self, entry: &Entry, key: &str) -> Result<T, ConfigError> {
        let bytes = entry.text(key).ok().and_then(parse_bytes);
        let bytes = bytes.filter(|bytes| self.0.contains(bytes));
        let bytes = bytes.and_then(|bytes| T::try_from(bytes).ok());
        bytes.ok_or_else(|| entry.wrong(key, self.expected()))
    }
}

/// A duration with units, for example `1h30m`.
pub(super) struct Span(pub(super) RangeInclusive<Duration>);

impl ValueType for Span {
    fn expected(&self) -> String {
        let (start, end) = (format_duration(*self.0.start()), format_duration(*self.0.end()));
        format!("a duration from {start} to {end}, such as \"15s\" or \"1h30m\"")
    }
}

impl Parse<Duration> for Span {
    fn parse(&self, entry: &Entry, key: &str) -> Result<Duration, ConfigError> {
        let duration = entry.text(key).ok().and_then(|text| parse_duration(text).ok());
        let duration = duration.filter(|duration| self.0.contains(duration));
        duration.ok_or_else(|| entry.wrong(key, self.expected()))
    }
}

/// Jobs per duration, for example `100/1m`.
pub(super) struct RatePer;

impl ValueType for RatePer {
    fn expected(&self) -> String {
        "a number of jobs per duration, such as \"100/1m\" or \"1/500ms\"".to_owned()
    }
}

impl Parse<Rate> for RatePer {
    fn parse(&self, entry: &Entry, key: &str) -> Result<Rate, ConfigError> {
        let rate = |text: &str| {
            let (jobs, per) = text.split_once('/')?;
            let rate = Rate { jobs: jobs.parse().ok()?, per: parse_duration(per).ok()? };
            Some(rate).filter(|rate| rate.jobs > 0 && RATE_PERIOD.contains(&rate.per))
        };
        entry.text(key).ok().and_then(rate).ok_or_else(|| entry.wrong(key, self.expected()))
    }
}

/// An empty text gives `None`.
impl Parse<Option<Rate>> for RatePer {
    fn parse(&self, entry: &Entry, key: &str) -> Result<Option<Rate>, ConfigError> {
        if matches!(entry.text(key), Ok("")) {
            return Ok(None);
        }
        self.parse(entry, key).map(Some)
    }
}

/// A fixed set of words.
pub(super) struct OneOf<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T> ValueType for OneOf<T> {
    fn expected(&self) -> String {
        let words: Vec<String> = self.0.iter().map(|(word, _)| format!("{word:?}")).collect();
        match words.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, before)) => format!("{} or {last}", before.join(", ")),
            None => String::new(),
        }
    }
}

impl<T: Clone> Parse<T> for OneOf<T> {
    fn parse(&self, entry: &Entry, key: &str) -> Result<T, ConfigError> {
        let text = entry.text(key)?;
        let value = self.0.iter().find(|(word, _)| *word == text).map(|(_, value)| value.clone());
        value.ok_or_else(|| entry.wrong(key, self.expected()))
    }
}

/// Values with a parser of their own: a description for the reference page, and the parser.
pub(super) struct Parsed<F>(pub(super) &'static str, pub(super) F);

impl<F> ValueType for Parsed<F> {
    fn expected(&self) -> String {
        self.0.to_owned()
    }
}

impl<T, F: Fn(&Entry, &str) -> Result<T, ConfigError>> Parse<T> for Parsed<F> {
    fn parse(&self, entry: &Entry, key: &str) -> Result<T, ConfigError> {
        self.1(entry, key)
    }
}

/// Values that a later stage parses, because they depend on others.
pub(super) struct Unparsed(pub(super) &'static str);

impl ValueType for Unparsed {
    fn expected(&self) -> String {
        self.0.to_owned()
    }
}

impl Parse<Entry> for Unparsed {
    fn parse(&self, entry: &Entry, _: &str) -> Result<Entry, ConfigError> {
        Ok(entry.clone())
    }
}
