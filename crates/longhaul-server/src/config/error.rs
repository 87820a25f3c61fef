//! Configuration errors with their origins.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Default,
    /// A file and a line, from 1.
    File(Arc<Path>, usize),
    Env(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {message}")]
pub struct ConfigError {
    pub origin: Origin,
    /// The value and the expectation, for example `` `lease.renew` is "soon"; expected a duration ``.
    pub message: String,
}

impl ConfigError {
    pub(super) fn new(origin: &Origin, message: impl Into<String>) -> Self {
        Self { origin: origin.clone(), message: message.into() }
    }
}

/// All errors of a configuration, so that one start shows every one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => write!(f, "invalid configuration: {only}"),
            all => {
                write!(f, "invalid configuration, {} errors:", all.len())?;
                all.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// Returns the known word with the fewest typing errors, up to a third of the letters.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance_max = (word.len() / 3).max(1).min(word.len().saturating_sub(1));
    known
        .map(|known| (strsim::damerau_levenshtein(word, known), known))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Returns `; did you mean …?`, or an empty text.
pub(super) fn hint(nearest: Option<&str>) -> String {
    nearest.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_typing_errors_and_ignores_other_words() {
        let known = ["log", "listen", "max_attempts"];
        let of = |word| nearest(word, known.into_iter());
        assert_eq!(of("lgo"), Some("log"));
        assert_eq!(of("lissten"), Some("listen"));
        assert_eq!(of("maxattemps"), Some("max_attempts"));
        for other in ["foo", "x", "", "colour"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
