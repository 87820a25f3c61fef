//! Audit log entries.

use std::fmt;

use crate::job::{TenantId, Timestamp};

/// The actor of an audited change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A client with the API key of this id.
    Key(String),
    /// The subject of a token from an OpenID Connect issuer.
    Subject(String),
    /// A local client without an API key.
    Local,
    /// The payment provider.
    Billing,
    /// The server itself.
    Server,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "key:{id}"),
            Self::Subject(subject) => write!(f, "subject:{subject}"),
            Self::Local => f.write_str("local"),
            Self::Billing => f.write_str("billing"),
            Self::Server => f.write_str("server"),
        }
    }
}

/// One audited change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Entry id, a ULID. Writing the same id twice stores one entry.
    pub id: String,
    /// Time of the change.
    pub at: Timestamp,
    /// Affected tenant.
    pub tenant: TenantId,
    /// Actor, formatted by [`Actor`].
    pub actor: String,
    /// Action, for example `key.create`.
    pub action: String,
    /// Affected job, key, tenant, queue or filter.
    pub target: String,
    /// Details. Never contains a secret, an input or a result.
    pub detail: String,
    /// Id of the request, which is also in the server's log.
    pub request_id: String,
}

impl AuditEntry {
    /// Returns this entry for the tenant number `place` of several.
    pub(crate) fn about(&self, tenant: &TenantId, place: usize) -> Self {
        let id = match place {
            0 => self.id.clone(),
            place => format!("{}.{place}", self.id),
        };
        Self { id, tenant: tenant.clone(), ..self.clone() }
    }
}

/// A filter for audit entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFilter {
    /// This tenant.
    pub tenant: Option<TenantId>,
    /// This job, key, tenant or queue.
    pub target: Option<String>,
    /// Cursor: only entries before this one.
    pub before: Option<String>,
    /// Maximum number of entries.
    pub limit: usize,
}

/// One page of audit entries, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// Entries, newest first.
    pub entries: Vec<AuditEntry>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

impl AuditPage {
    /// Builds a page from up to one entry more than requested.
    pub(crate) fn of(mut entries: Vec<AuditEntry>, limit: usize) -> Self {
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(|entry| entry.id.clone());
        Self { entries, next }
    }
}
