//! Audit log entries.

use std::fmt;

use crate::job::{TenantId, Timestamp};

/// The originator of an audited action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A client with the API key of this id.
    Key(String),
    /// The subject of a token from a trusted issuer.
    Subject(String),
    /// A local caller, which needs no key.
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

/// One audited action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Entry id, a ULID. Writing an entry twice stores it once.
    pub id: String,
    /// Time of the action.
    pub at: Timestamp,
    /// Tenant that the action affected.
    pub tenant: TenantId,
    /// Originator, formatted by [`Actor`].
    pub actor: String,
    /// Name of the action, for example `key.create`.
    pub action: String,
    /// Object of the action: a job, a key, a tenant, a queue or a filter.
    pub target: String,
    /// Further details. Never a secret, an input or a result.
    pub detail: String,
    /// Id of the request, which leads to its lines in the server's log.
    pub request_id: String,
}

impl AuditEntry {
    /// Returns a copy of the entry for the tenant at index `place`. Copies after the first get
    /// an id of their own.
    pub(crate) fn about(&self, tenant: &TenantId, place: usize) -> Self {
        let id = match place {
            0 => self.id.clone(),
            place => format!("{}.{place}", self.id),
        };
        Self { id, tenant: tenant.clone(), ..self.clone() }
    }
}

/// A query for audit entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFilter {
    /// Entries of this tenant only.
    pub tenant: Option<TenantId>,
    /// Entries about this job, key, tenant or queue only.
    pub target: Option<String>,
    /// Cursor: only entries older than this one. Use [`AuditPage::next`] of the previous page.
    pub before: Option<String>,
    /// Maximum number of entries.
    pub limit: usize,
}

/// One page of audit entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// Entries, newest first.
    pub entries: Vec<AuditEntry>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

impl AuditPage {
    /// Builds a page from up to `limit + 1` entries; the extra entry shows that there is a next page.
    pub(crate) fn of(mut entries: Vec<AuditEntry>, limit: usize) -> Self {
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(|entry| entry.id.clone());
        Self { entries, next }
    }
}
