//! What is wrong with the configuration, and where.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The compiled-in file.
    Default,
    /// A file, and the line in it, from 1.
    File(Arc<Path>, usize),
    /// An environment variable.
    Env(String),
    /// A command line flag.
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

/// One thing that has to be put right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {message}")]
pub struct ConfigError {
    /// Where it was given.
    pub origin: Origin,
    /// What is wrong and what is expected.
    pub message: String,
}

impl ConfigError {
    pub(super) fn new(origin: &Origin, message: impl Into<String>) -> Self {
        Self { origin: origin.clone(), message: message.into() }
    }
}

/// Everything that has to be put right, so that nobody has to start ten times to find out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => write!(f, "the configuration is wrong: {only}"),
            all => {
                write!(f, "the configuration has {} errors:", all.len())?;
                all.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// The `known` word that `given` was probably meant to be.
pub(super) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters wrong is still a slip; more is another word.
    let slips_max = (given.len() / 3).max(1).min(given.len().saturating_sub(1));
    known
        .map(|word| (strsim::damerau_levenshtein(given, word), word))
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, word)| word)
}

/// `; did you mean …?`, or nothing.
pub(super) fn hint(nearest: Option<&str>) -> String {
    nearest.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_put_right_and_other_words_left_alone() {
        let known = ["log", "listen", "max_attempts"];
        let of = |given| nearest(given, known.into_iter());
        assert_eq!(of("lgo"), Some("log"));
        assert_eq!(of("lissten"), Some("listen"));
        assert_eq!(of("maxattemps"), Some("max_attempts"));
        for other in ["foo", "x", "", "colour"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
