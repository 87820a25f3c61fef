//! Names of kinds, queues and tenants.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize};

/// First character of an outbox's id, which no valid name has.
const OUTBOX: char = '~';

/// The name of a kind or a queue: a letter or digit, then up to 63 letters, digits, `.`, `_` or
/// `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Name(Arc<str>);

/// A text that is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a name: use a letter or digit, then up to 63 letters, digits, '.', '_' or '-'"
)]
pub struct NameError(String);

impl Name {
    /// Validates a name.
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        let mut bytes = text.bytes();
        let starts_well = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
        let goes_on_well = bytes.all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if starts_well && goes_on_well && text.len() <= 64 {
            Ok(Self(text.into()))
        } else {
            Err(NameError(text.chars().take(80).collect()))
        }
    }

    /// Returns the name of the default queue, `default`.
    pub fn default_queue() -> Self {
        Self("default".into())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text or [`Name`] that names a kind or a queue.
///
/// Builders accept any of these and report an invalid name when the engine starts or the job is
/// submitted.
pub trait IntoName {
    /// Converts to a checked name.
    fn into_name(self) -> Result<Name, NameError>;
}

impl IntoName for Name {
    fn into_name(self) -> Result<Name, NameError> {
        Ok(self)
    }
}

impl IntoName for &Name {
    fn into_name(self) -> Result<Name, NameError> {
        Ok(self.clone())
    }
}

macro_rules! text_into_name {
    ($($text:ty),+) => {
        $(impl IntoName for $text {
            fn into_name(self) -> Result<Name, NameError> {
                Name::new(self)
            }
        })+
    };
}

text_into_name!(&str, String, &String);

impl TryFrom<&str> for Name {
    type Error = NameError;

    fn try_from(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The id of a tenant. Everything belongs to one tenant, and no call reaches another tenant's data.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantId(Name);

impl TenantId {
    /// Validates a tenant id; the rules are those of [`Name`].
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        Name::new(text).map(Self)
    }

    /// Converts from the stored form, which may be an outbox.
    pub(crate) fn stored(text: &str) -> Option<Self> {
        let name = text.strip_prefix(OUTBOX).unwrap_or(text);
        Name::new(name).ok()?;
        Some(Self(Name(text.into())))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the id of this tenant's outbox: a separate tenant that callers cannot name, so that
    /// deliveries appear in no list, quota or usage, and are claimed round-robin.
    #[must_use]
    pub fn outbox(&self) -> Self {
        if self.is_outbox() {
            return self.clone();
        }
        Self(Name(format!("{OUTBOX}{}", self.as_str()).into()))
    }

    /// Returns true if this is an outbox.
    pub fn is_outbox(&self) -> bool {
        self.as_str().starts_with(OUTBOX)
    }

    /// Returns the tenant that owns an outbox; itself for other tenants.
    #[must_use]
    pub fn owner(&self) -> Self {
        match self.as_str().strip_prefix(OUTBOX) {
            Some(name) => Self(Name(name.into())),
            None => self.clone(),
        }
    }
}

impl TryFrom<&str> for TenantId {
    type Error = NameError;

    fn try_from(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl Default for TenantId {
    /// Returns the tenant `default`.
    fn default() -> Self {
        static DEFAULT: LazyLock<TenantId> = LazyLock::new(|| TenantId(Name("default".into())));
        DEFAULT.clone()
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_urls_and_file_names() {
        for good in ["a", "resize", "Graph.v2", "0-day", "a_b", &"x".repeat(64)] {
            assert!(Name::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".hidden", "-x", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert!(Name::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn outbox_is_a_tenant_that_nobody_can_name() {
        let tenant = TenantId::new("acme").unwrap();
        let outbox = tenant.outbox();
        assert_eq!((outbox.as_str(), outbox.owner()), ("~acme", tenant.clone()));
        assert!(outbox.is_outbox() && !tenant.is_outbox());
        assert_eq!((outbox.outbox(), TenantId::stored("~acme")), (outbox, Some(tenant.outbox())));
        assert!(TenantId::new("~acme").is_err());
        assert_eq!((TenantId::stored("~"), TenantId::stored("~~a")), (None, None));
        assert!(serde_json::from_str::<TenantId>("\"~acme\"").is_err());
    }
}
