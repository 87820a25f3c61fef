//! Tenants, their keys, and who did what: what a server asks before it lets a caller near the engine.
//!
//! The engine knows tenants by name only and needs none of this. Both stores keep it beside the jobs, so
//! that one database is all that a server has. Whatever is changed here is written down in the same
//! transaction: an [`AuditEntry`] comes with every call that changes something. Each call may be repeated
//! when its answer was lost.

mod audit;
mod key;
mod tenant;

use async_trait::async_trait;

pub use audit::{Actor, AuditEntry, AuditFilter, AuditPage};
pub use key::{ApiKey, KeyDigest, NewKey, Scope, Scopes};
pub use tenant::{
    BillingEvent, LimitsChange, Subscription, Tenant, TenantChange, TenantLimits, apply_billing,
};

use super::StoreError;
use crate::job::{TenantId, Timestamp};

/// Keeps tenants and keys. Keys are found by their id alone: it is what tells the tenant.
#[async_trait]
pub trait Accounts: Send + Sync {
    /// Makes a tenant. None if there is one of that id already.
    async fn create_tenant(
        &self,
        tenant: &Tenant,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError>;

    /// A tenant.
    async fn tenant(&self, id: &TenantId) -> Result<Option<Tenant>, StoreError>;

    /// Up to `limit` tenants by id, those after `after`.
    async fn tenants(
        &self,
        after: Option<&TenantId>,
        limit: usize,
    ) -> Result<Vec<Tenant>, StoreError>;

    /// Changes a tenant. None if there is none of that id.
    async fn change_tenant(
        &self,
        id: &TenantId,
        change: &TenantChange,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError>;

    /// Sets a subscription as the payment provider tells, by the customer's id there. None if no tenant
    /// has it. An event that was applied before, or is older than the last one, changes nothing. The entry
    /// is written under the tenant that is found.
    async fn apply_billing(
        &self,
        event: &BillingEvent,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError>;

    /// Makes a key. None if there is no such tenant.
    async fn create_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError>;

    /// Makes a key and its tenant if there is no key at all. Of several that try at once, one succeeds.
    async fn create_first_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError>;

    /// Makes a key in the place of another, which ends at `old_ends_at` unless it ends before. None if
    /// there is no such key, or it has ended.
    async fn rotate_key(
        &self,
        old: &str,
        key: &NewKey,
        old_ends_at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError>;

    /// A key, also one that has ended.
    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError>;

    /// Up to `limit` keys by id, those after `after`, of one tenant or of all.
    async fn keys(
        &self,
        tenant: Option<&TenantId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ApiKey>, StoreError>;

    /// Ends a key now. None if there is no such key; one that has ended stays as it is.
    async fn revoke_key(&self, id: &str, audit: &AuditEntry) -> Result<Option<ApiKey>, StoreError>;

    /// Notes when keys were last used. Nothing else of them changes.
    async fn note_use(&self, used: &[(String, Timestamp)]) -> Result<(), StoreError>;

    /// Keeps another digest of the same key, after the server's own key was rotated.
    async fn redigest_key(&self, id: &str, digest: &KeyDigest) -> Result<(), StoreError>;

    /// Ids of keys and tenants that were changed at or after `since`.
    async fn changed_since(&self, since: Timestamp) -> Result<Changed, StoreError>;

    /// Writes down what was done.
    async fn audit(&self, entries: &[AuditEntry]) -> Result<(), StoreError>;

    /// What was done, latest first.
    async fn audited(&self, filter: &AuditFilter) -> Result<AuditPage, StoreError>;

    /// Forgets up to `limit` entries from before `before`. How many there were.
    async fn forget_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
}

/// What was changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// Keys that were revoked, rotated or given another end.
    pub keys: Vec<String>,
    /// Tenants whose subscription or limits are others now.
    pub tenants: Vec<TenantId>,
}
