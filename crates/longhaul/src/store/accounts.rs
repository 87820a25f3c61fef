//! Accounts: tenants, API keys and the audit log.
//!
//! The engine needs none of this, because it knows tenants by id only. Both stores keep it beside the jobs, so
//! that a server needs one database. Every change carries an [`AuditEntry`], which is written in the same
//! transaction. Every call may be repeated when its response was lost.

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

/// A complete account store.
pub trait Accounts: TenantStore + ApiKeyStore + AuditStore {}

impl<S: TenantStore + ApiKeyStore + AuditStore> Accounts for S {}

/// Tenants and their subscriptions.
#[async_trait]
pub trait TenantStore: Send + Sync {
    /// Creates a tenant. `None` if the id exists.
    async fn create_tenant(
        &self,
        tenant: &Tenant,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError>;

    /// Returns a tenant.
    async fn tenant(&self, id: &TenantId) -> Result<Option<Tenant>, StoreError>;

    /// Returns up to `limit` tenants by id, starting after `after`.
    async fn tenants(
        &self,
        after: Option<&TenantId>,
        limit: usize,
    ) -> Result<Vec<Tenant>, StoreError>;

    /// Changes a tenant. `None` if the id does not exist.
    async fn change_tenant(
        &self,
        id: &TenantId,
        change: &TenantChange,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError>;

    /// Sets the subscriptions of all tenants billed to one customer of the payment provider, and returns
    /// them. A repeated event, or one older than the last applied event, changes nothing. Writes one audit
    /// entry per changed tenant.
    async fn apply_billing(
        &self,
        event: &BillingEvent,
        audit: &AuditEntry,
    ) -> Result<Vec<Tenant>, StoreError>;
}

/// API keys. A key is found by its id alone, because requests do not name the tenant.
#[async_trait]
pub trait ApiKeyStore: Send + Sync {
    /// Creates a key. `None` if the tenant does not exist.
    async fn create_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError>;

    /// Creates a key and its tenant if the store has no key yet. Of several concurrent calls, one succeeds.
    async fn create_first_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError>;

    /// Creates a replacement for the key `old`, which then expires at `old_ends_at` at the latest. `None` if
    /// there is no such key or it has expired.
    async fn rotate_key(
        &self,
        old: &str,
        key: &NewKey,
        old_ends_at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError>;

    /// Returns a key, even if it has expired.
    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError>;

    /// Returns up to `limit` keys of one tenant or of all by id, starting after `after`.
    async fn keys(
        &self,
        tenant: Option<&TenantId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ApiKey>, StoreError>;

    /// Revokes a key now. `None` if there is no such key; an expired key does not change.
    async fn revoke_key(&self, id: &str, audit: &AuditEntry) -> Result<Option<ApiKey>, StoreError>;

    /// Records the last use of keys.
    async fn record_key_use(&self, used: &[(String, Timestamp)]) -> Result<(), StoreError>;

    /// Replaces the digest of a key, after the server key was rotated.
    async fn replace_key_digest(&self, id: &str, digest: &KeyDigest) -> Result<(), StoreError>;

    /// Returns the keys and tenants that were changed at or after `since`.
    async fn changed_since(&self, since: Timestamp) -> Result<AccountChanges, StoreError>;
}

/// The audit log.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Appends entries.
    async fn record_audit(&self, entries: &[AuditEntry]) -> Result<(), StoreError>;

    /// Returns a page of matching entries, newest first.
    async fn audit_log(&self, filter: &AuditFilter) -> Result<AuditPage, StoreError>;

    /// Deletes up to `limit` entries older than `before`, and returns their number.
    async fn prune_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;
}

/// Ids of changed keys and tenants, for invalidating caches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountChanges {
    /// Keys that were revoked, rotated or given another expiry.
    pub keys: Vec<String>,
    /// Tenants whose subscription or limits changed.
    pub tenants: Vec<TenantId>,
}
