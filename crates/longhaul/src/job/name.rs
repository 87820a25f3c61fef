//! Names that appear in URLs, configuration and the database.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

/// How the name of an outbox begins: no name can.
const OUTBOX: char = '~';

/// The name of a kind or a queue: a letter or digit, then up to 63 letters, digits, `.`, `_` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Name(Arc<str>);

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a name: use a letter or digit, then up to 63 letters, digits, '.', '_' or '-'"
)]
pub struct NameError(String);

impl Name {
    /// Checks and takes a name.
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

    /// The queue of a job whose kind and submitter name none.
    pub fn default_queue() -> Self {
        Self("default".into())
    }

    /// The text.
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

impl IntoName for &str {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(self)
    }
}

impl IntoName for String {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(self)
    }
}

impl IntoName for &String {
    fn into_name(self) -> Result<Name, NameError> {
        Name::new(self)
    }
}

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

/// Whose job it is. Everything belongs to one tenant, and no call reaches over to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantId(Name);

impl TenantId {
    /// Checks and takes a tenant id; the same rules as for [`Name`].
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        Name::new(text).map(Self)
    }

    /// From how a store keeps it: also an outbox, which nobody can name.
    pub(crate) fn stored(text: &str) -> Option<Self> {
        let name = text.strip_prefix(OUTBOX).unwrap_or(text);
        Name::new(name).ok()?;
        Some(Self(Name(text.into())))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Where this tenant's deliveries are kept: a tenant of its own beside it that no caller can name, so
    /// that they are in nobody's lists, limits and usage, and take turns with other tenants'.
    #[must_use]
    pub fn outbox(&self) -> Self {
        if self.is_outbox() {
            return self.clone();
        }
        Self(Name(format!("{OUTBOX}{}", self.as_str()).into()))
    }

    /// Whether it holds another tenant's deliveries.
    pub fn is_outbox(&self) -> bool {
        self.as_str().starts_with(OUTBOX)
    }

    /// Whose deliveries these are: the tenant itself, if it is no outbox.
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
    /// The tenant of those who have only one.
    fn default() -> Self {
        Self(Name("default".into()))
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
