//! Who did what.

use std::fmt;

use crate::job::{TenantId, Timestamp};

/// Who did something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// Whoever holds the key of this id.
    Key(String),
    /// The subject of a token that an issuer vouched for.
    Subject(String),
    /// Somebody on this machine, where no key is needed.
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

/// One thing that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its own id, a ULID: whoever writes it twice writes it once.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// The tenant that it was done to.
    pub tenant: TenantId,
    /// By whom, as [`Actor`] shows itself.
    pub actor: String,
    /// What, `key.create` for instance.
    pub action: String,
    /// To which: a job, a key, a tenant, a queue, a filter.
    pub target: String,
    /// What else is to be known about it. Never a secret, an input or a result.
    pub detail: String,
    /// The request that it was done by; the server's log has the rest.
    pub request_id: String,
}

/// Which entries are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFilter {
    /// Of this tenant only.
    pub tenant: Option<TenantId>,
    /// About this job, key, tenant or queue only.
    pub target: Option<String>,
    /// Those before this entry.
    pub before: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// Entries, latest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The entries.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

impl AuditPage {
    /// Of up to one entry more than were asked for.
    pub(crate) fn of(mut entries: Vec<AuditEntry>, limit: usize) -> Self {
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(|entry| entry.id.clone());
        Self { entries, next }
    }
}
