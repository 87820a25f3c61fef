//! Tenants, API keys, webhook endpoints and the audit log.
//!
//! A call that is repeated because its response was lost finds the row of the first call, with the time or
//! the id that the first call wrote.

mod api_keys;
mod audit;
mod endpoints;
mod tenants;

use async_trait::async_trait;

use self::api_keys::key;
use self::audit::{AuditRows, entry};
use self::tenants::{tenant, tenant_id};
use super::connection::columns::{Columns, limit, without_nul};
use super::connection::error::{PgError, RetryState};
use super::connection::params::Param;
use super::{Inner, PostgresStore, sql};
use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::accounts::{
    AccountChanges, ApiKey, ApiKeyStore, AuditEntry, AuditFilter, AuditPage, AuditStore,
    BillingEvent, KeyDigest, NewKey, Tenant, TenantChange, TenantStore,
};

/// Sorts after every id.
const LAST_ID: &str = "\u{10ffff}";

#[async_trait]
impl TenantStore for PostgresStore {
    async fn create_tenant(
        &self,
        tenant: &Tenant,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError> {
        retrying!(self.inner.try_create_tenant(tenant, audit))
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<Tenant>, StoreError> {
        retrying!(self.inner.try_tenant(id))
    }

    async fn tenants(
        &self,
        after: Option<&TenantId>,
        count: usize,
    ) -> Result<Vec<Tenant>, StoreError> {
        let after = after.map_or("", TenantId::as_str);
        retrying!(self.inner.read_all(sql::TENANTS, &[&after, &limit(count)], tenant))
    }

    async fn change_tenant(
        &self,
        id: &TenantId,
        change: &TenantChange,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError> {
        retrying!(self.inner.try_change_tenant(id, change, audit))
    }

    async fn apply_billing(
        &self,
        event: &BillingEvent,
        audit: &AuditEntry,
    ) -> Result<Vec<Tenant>, StoreError> {
        retrying!(self.inner.try_apply_billing(event, audit))
    }
}

#[async_trait]
impl ApiKeyStore for PostgresStore {
    async fn create_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        let now = self.inner.clock.now();
        retrying!(self.inner.try_create_key(key, now, audit))
    }

    async fn create_first_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        retrying!(self.inner.try_create_first_key(key, audit))
    }

    async fn rotate_key(
        &self,
        old: &str,
        key: &NewKey,
        old_ends_at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        let now = self.inner.clock.now();
        retrying!(self.inner.try_rotate_key(old, key, old_ends_at, now, audit))
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError> {
        retrying!(self.inner.try_key(id))
    }

    async fn keys(
        &self,
        tenant: Option<&TenantId>,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let (after, count) = (without_nul(after.unwrap_or_default()), limit(count));
        let after = &*after;
        let Some(tenant) = tenant else {
            return retrying!(self.inner.read_all(sql::API_KEYS, &[&after, &count], key));
        };
        let params: &[&dyn Param] = &[&after, &count, &tenant.as_str()];
        retrying!(self.inner.read_all_of(tenant, sql::API_KEYS_OF_TENANT, params, key))
    }

    async fn revoke_key(&self, id: &str, audit: &AuditEntry) -> Result<Option<ApiKey>, StoreError> {
        retrying!(self.inner.try_revoke_key(id, audit))
    }

    async fn record_key_use(&self, used: &[(String, Timestamp)]) -> Result<(), StoreError> {
        let mut used = used.to_vec();
        // All replicas lock rows in the same order, so that they cannot deadlock.
        used.sort_unstable();
        let ids: Vec<&str> = used.iter().map(|(id, _)| id.as_str()).collect();
        let ats: Vec<i64> = used.iter().map(|(_, at)| at.as_millis()).collect();
        retrying!(self.inner.run(sql::RECORD_API_KEY_USE, &[&ids, &ats]))
    }

    async fn replace_key_digest(&self, id: &str, digest: &KeyDigest) -> Result<(), StoreError> {
        let bytes = digest.bytes.to_vec();
        let params: &[&dyn Param] = &[&id, &digest.server_key, &bytes];
        retrying!(self.inner.run(sql::REDIGEST_API_KEY, params))
    }

    async fn changed_since(&self, since: Timestamp) -> Result<AccountChanges, StoreError> {
        let since = since.as_millis();
        let keys: Result<_, StoreError> =
            retrying!(self.inner.read_all(sql::CHANGED_API_KEYS, &[&since], |row| {
                Columns::of(row).get::<String>()
            }));
        let tenants: Result<_, StoreError> =
            retrying!(self.inner.read_all(sql::CHANGED_TENANTS, &[&since], tenant_id));
        Ok(AccountChanges { keys: keys?, tenants: tenants? })
    }
}

#[async_trait]
impl AuditStore for PostgresStore {
    async fn record_audit(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        let rows = AuditRows::of(entries);
        retrying!(self.inner.run(sql::INSERT_AUDIT, &rows.params()))
    }

    async fn audit_log(&self, filter: &AuditFilter) -> Result<AuditPage, StoreError> {
        let before = without_nul(filter.before.as_deref().unwrap_or(LAST_ID));
        let before = &*before;
        let count = limit(filter.limit.saturating_add(1));
        let target = filter.target.as_deref().map(without_nul);
        let name = filter.tenant.as_ref().map(TenantId::as_str);
        let entries: Result<_, StoreError> = match (target.as_deref(), &filter.tenant) {
            (Some(target), None) => {
                let params: &[&dyn Param] = &[&before, &count, &target, &name];
                retrying!(self.inner.read_all(sql::AUDIT_OF_TARGET, params, entry))
            }
            (Some(target), Some(tenant)) => {
                let params: &[&dyn Param] = &[&before, &count, &target, &name];
                retrying!(self.inner.read_all_of(tenant, sql::AUDIT_OF_TARGET, params, entry))
            }
            (None, Some(tenant)) => {
                let params: &[&dyn Param] = &[&before, &count, &tenant.as_str()];
                retrying!(self.inner.read_all_of(tenant, sql::AUDIT_OF_TENANT, params, entry))
            }
            (None, None) => {
                retrying!(self.inner.read_all(sql::AUDIT, &[&before, &count], entry))
            }
        };
        Ok(AuditPage::of(entries?, filter.limit))
    }

    async fn prune_audit(&self, before: Timestamp, count: usize) -> Result<usize, StoreError> {
        let params: &[&dyn Param] = &[&before.as_millis(), &limit(count)];
        let gone: Result<Vec<()>, StoreError> =
            retrying!(self.inner.read_all(sql::FORGET_AUDIT, params, |_| Ok(())));
        Ok(gone?.len())
    }
}

impl Inner {
    async fn read_all<T>(
        &self,
        sql: &'static str,
        params: &[&dyn Param],
        read: fn(&tokio_postgres::Row) -> Result<T, PgError>,
    ) -> Result<Vec<T>, PgError> {
        let mut connection = self.database.connection().await?;
        connection.query(sql, params).await?.iter().map(read).collect()
    }

    /// Reads all rows like `read_all`, but over a connection that sees one tenant only.
    pub(super) async fn read_all_of<T>(
        &self,
        tenant: &TenantId,
        sql: &'static str,
        params: &[&dyn Param],
        read: fn(&tokio_postgres::Row) -> Result<T, PgError>,
    ) -> Result<Vec<T>, PgError> {
        let mut connection = self.database.tenant_connection(tenant).await?;
        connection.query(sql, params).await?.iter().map(read).collect()
    }

    async fn run(&self, sql: &'static str, params: &[&dyn Param]) -> Result<(), PgError> {
        let mut connection = self.database.connection().await?;
        connection.query(sql, params).await?;
        Ok(())
    }
}
