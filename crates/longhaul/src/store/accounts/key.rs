//! API keys as stored: an id, scopes and a digest of the secret, never the secret itself.

use std::fmt;

use crate::job::{TenantId, Timestamp};

/// A permission of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Submit and change the tenant's jobs.
    Submit,
    /// Reading and watching the tenant's jobs.
    Read,
    /// Running the tenant's jobs as a remote worker.
    Work,
    /// Administering the server: tenants, keys and everything else. Includes all other scopes.
    Admin,
}

impl Scope {
    /// All scopes, in display order.
    pub const ALL: [Self; 4] = [Self::Submit, Self::Read, Self::Work, Self::Admin];

    /// Returns the name used in the database and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }

    /// Parses a name that [`Self::as_str`] returned.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }

    fn bit(self) -> u8 {
        match self {
            Self::Submit => 1,
            Self::Read => 2,
            Self::Work => 4,
            Self::Admin => 8,
        }
    }
}

/// A set of scopes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Returns all scopes.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Returns true if the set permits actions that need `scope`. `Admin` permits all actions.
    pub fn allow(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Admin.bit()) != 0
    }

    /// Returns true if the set has no scope.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the scopes in display order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }

    /// Returns the stored form: names separated by spaces.
    pub(crate) fn to_text(self) -> String {
        self.iter().map(Scope::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Parses the stored form.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        text.split_ascii_whitespace().map(Scope::parse).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// A digest of an API key's secret, for checking a presented secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyDigest {
    /// Id of the server key that the digest was made with.
    pub server_key: String,
    /// HMAC of the secret. Does not reveal the secret, even together with the server key.
    pub bytes: [u8; 32],
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyDigest({}, …)", self.server_key)
    }
}

/// An API key to create.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Public part of the key.
    pub id: String,
    /// Tenant that owns the key.
    pub tenant: TenantId,
    /// Display name.
    pub name: String,
    /// Permissions of the key.
    pub scopes: Scopes,
    /// Digest of the secret.
    pub digest: KeyDigest,
    /// Expiry; `None` if the key does not expire.
    pub expires_at: Option<Timestamp>,
    /// Maximum requests per second. `None` applies the tenant's limit only.
    pub requests_per_s: Option<u32>,
}

/// An API key as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Public part of the key.
    pub id: String,
    /// Tenant that owns the key.
    pub tenant: TenantId,
    /// Display name.
    pub name: String,
    /// Permissions of the key.
    pub scopes: Scopes,
    /// Digest of the secret.
    pub digest: KeyDigest,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Expiry; `None` if the key does not expire.
    pub expires_at: Option<Timestamp>,
    /// Time of revocation.
    pub revoked_at: Option<Timestamp>,
    /// Time of last use, accurate to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// Maximum requests per second. `None` applies the tenant's limit only.
    pub requests_per_s: Option<u32>,
    /// Id of the key that this one replaces.
    pub rotated_from: Option<String>,
}

impl ApiKey {
    /// Returns true if the key is neither revoked nor expired.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    pub(crate) fn made(new: &NewKey, rotated_from: Option<&str>, now: Timestamp) -> Self {
        Self {
            id: new.id.clone(),
            tenant: new.tenant.clone(),
            name: new.name.clone(),
            scopes: new.scopes,
            digest: new.digest.clone(),
            created_at: now,
            expires_at: new.expires_at,
            revoked_at: None,
            last_used_at: None,
            requests_per_s: new.requests_per_s,
            rotated_from: rotated_from.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_may_do_everything_and_others_what_they_were_given() {
        let reader: Scopes = [Scope::Read].into_iter().collect();
        assert!(reader.allow(Scope::Read) && !reader.allow(Scope::Submit));
        let admin: Scopes = [Scope::Admin].into_iter().collect();
        assert!(Scope::ALL.into_iter().all(|scope| admin.allow(scope)));
        assert!(!Scope::ALL.into_iter().any(|scope| Scopes::default().allow(scope)));
    }

    #[test]
    fn scopes_are_kept_as_words() {
        assert_eq!(Scopes::all().to_text(), "submit read work admin");
        assert_eq!(Scopes::from_text("read submit").map(Scopes::to_text).unwrap(), "submit read");
        assert_eq!(Scopes::from_text("read root"), None);
    }
}
