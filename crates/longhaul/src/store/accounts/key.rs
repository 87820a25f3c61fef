//! Keys as a store knows them: everything but what would let somebody use them.

use std::fmt;

use crate::job::{TenantId, Timestamp};

/// What a key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Submitting and changing the tenant's jobs.
    Submit,
    /// Reading and watching them.
    Read,
    /// Running them as a remote worker.
    Work,
    /// Running the server: tenants, keys, and everything else.
    Admin,
}

impl Scope {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Submit, Self::Read, Self::Work, Self::Admin];

    /// The word used in the database and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }

    /// Reads the word back.
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
    /// Every scope.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Whether a holder may do what needs `scope`. An admin may do everything.
    pub fn allow(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Admin.bit()) != 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that were given, in their order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & scope.bit() != 0)
    }

    /// As the database keeps them: words with spaces between.
    pub(crate) fn to_text(self) -> String {
        self.iter().map(Scope::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Reads them back.
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

/// What a presented secret is compared with.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyDigest {
    /// The id of the server's key that it was made with.
    pub server_key: String,
    /// HMAC of the secret. It does not give the secret away, even to whoever has the server's key.
    pub bytes: [u8; 32],
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyDigest({}, …)", self.server_key)
    }
}

/// A key that is to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The part of the key that is no secret.
    pub id: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// For people.
    pub name: String,
    /// What it is good for.
    pub scopes: Scopes,
    /// What its secret is compared with.
    pub digest: KeyDigest,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// Requests a second that it may make. None: as its tenant.
    pub requests_per_s: Option<u32>,
}

/// A key as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The part of the key that is no secret.
    pub id: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// For people.
    pub name: String,
    /// What it is good for.
    pub scopes: Scopes,
    /// What its secret is compared with.
    pub digest: KeyDigest,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was ended.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used, to the minute or so.
    pub last_used_at: Option<Timestamp>,
    /// Requests a second that it may make. None: as its tenant.
    pub requests_per_s: Option<u32>,
    /// The key that it was made in the place of.
    pub rotated_from: Option<String>,
}

impl ApiKey {
    /// Whether it is good for anything now.
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
