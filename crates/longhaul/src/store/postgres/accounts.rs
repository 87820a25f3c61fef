//! Tenants, keys, and who did what.
//!
//! An answer that was lost is looked up: what a repeated call would make is there already, with the time or
//! the id that the first one gave it.

mod rows;

use async_trait::async_trait;

use self::rows::{AuditRows, TenantRow, entry, key, tenant, tenant_id};
use super::columns::{Columns, limit, without_nul};
use super::database::Transaction;
use super::error::{Tries, Trouble};
use super::params::Param;
use super::{Inner, PostgresStore, sql};
use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::accounts::{
    AccountChanges, ApiKey, ApiKeyStore, AuditEntry, AuditFilter, AuditPage, AuditStore,
    BillingEvent, KeyDigest, NewKey, Tenant, TenantChange, TenantStore, apply_billing,
};

/// Comes after every id.
const LAST_ID: &str = "\u{10ffff}";

#[async_trait]
impl TenantStore for PostgresStore {
    async fn create_tenant(
        &self,
        tenant: &Tenant,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError> {
        persistently!(self.inner.try_create_tenant(tenant, audit))
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<Tenant>, StoreError> {
        persistently!(self.inner.try_tenant(id))
    }

    async fn tenants(
        &self,
        after: Option<&TenantId>,
        count: usize,
    ) -> Result<Vec<Tenant>, StoreError> {
        let after = after.map_or("", TenantId::as_str);
        persistently!(self.inner.read_all(sql::TENANTS, &[&after, &limit(count)], tenant))
    }

    async fn change_tenant(
        &self,
        id: &TenantId,
        change: &TenantChange,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError> {
        persistently!(self.inner.try_change_tenant(id, change, audit))
    }

    async fn apply_billing(
        &self,
        event: &BillingEvent,
        audit: &AuditEntry,
    ) -> Result<Vec<Tenant>, StoreError> {
        persistently!(self.inner.try_apply_billing(event, audit))
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
        persistently!(self.inner.try_create_key(key, now, audit))
    }

    async fn create_first_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        persistently!(self.inner.try_create_first_key(key, audit))
    }

    async fn rotate_key(
        &self,
        old: &str,
        key: &NewKey,
        old_ends_at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        let now = self.inner.clock.now();
        persistently!(self.inner.try_rotate_key(old, key, old_ends_at, now, audit))
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError> {
        persistently!(self.inner.try_key(id))
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
            return persistently!(self.inner.read_all(sql::API_KEYS, &[&after, &count], key));
        };
        let params: &[&dyn Param] = &[&after, &count, &tenant.as_str()];
        persistently!(self.inner.read_all_of(tenant, sql::API_KEYS_OF_TENANT, params, key))
    }

    async fn revoke_key(&self, id: &str, audit: &AuditEntry) -> Result<Option<ApiKey>, StoreError> {
        persistently!(self.inner.try_revoke_key(id, audit))
    }

    async fn record_key_use(&self, used: &[(String, Timestamp)]) -> Result<(), StoreError> {
        let mut used = used.to_vec();
        // In one order everywhere, so that replicas wait for each other and never in a circle.
        used.sort_unstable();
        let ids: Vec<&str> = used.iter().map(|(id, _)| id.as_str()).collect();
        let ats: Vec<i64> = used.iter().map(|(_, at)| at.as_millis()).collect();
        persistently!(self.inner.run(sql::NOTE_USE, &[&ids, &ats]))
    }

    async fn replace_key_digest(&self, id: &str, digest: &KeyDigest) -> Result<(), StoreError> {
        let bytes = digest.bytes.to_vec();
        let params: &[&dyn Param] = &[&id, &digest.server_key, &bytes];
        persistently!(self.inner.run(sql::REDIGEST_API_KEY, params))
    }

    async fn changed_since(&self, since: Timestamp) -> Result<AccountChanges, StoreError> {
        let since = since.as_millis();
        let keys: Result<_, StoreError> =
            persistently!(self.inner.read_all(sql::CHANGED_API_KEYS, &[&since], |row| {
                Columns::of(row).get::<String>()
            }));
        let tenants: Result<_, StoreError> =
            persistently!(self.inner.read_all(sql::CHANGED_TENANTS, &[&since], tenant_id));
        Ok(AccountChanges { keys: keys?, tenants: tenants? })
    }
}

#[async_trait]
impl AuditStore for PostgresStore {
    async fn record_audit(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        let rows = AuditRows::of(entries);
        persistently!(self.inner.run(sql::INSERT_AUDIT, &rows.params()))
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
                persistently!(self.inner.read_all(sql::AUDIT_OF_TARGET, params, entry))
            }
            (Some(target), Some(tenant)) => {
                let params: &[&dyn Param] = &[&before, &count, &target, &name];
                persistently!(self.inner.read_all_of(tenant, sql::AUDIT_OF_TARGET, params, entry))
            }
            (None, Some(tenant)) => {
                let params: &[&dyn Param] = &[&before, &count, &tenant.as_str()];
                persistently!(self.inner.read_all_of(tenant, sql::AUDIT_OF_TENANT, params, entry))
            }
            (None, None) => {
                persistently!(self.inner.read_all(sql::AUDIT, &[&before, &count], entry))
            }
        };
        Ok(AuditPage::of(entries?, filter.limit))
    }

    async fn prune_audit(&self, before: Timestamp, count: usize) -> Result<usize, StoreError> {
        let params: &[&dyn Param] = &[&before.as_millis(), &limit(count)];
        let gone: Result<Vec<()>, StoreError> =
            persistently!(self.inner.read_all(sql::FORGET_AUDIT, params, |_| Ok(())));
        Ok(gone?.len())
    }
}

impl Inner {
    async fn read_all<T>(
        &self,
        sql: &'static str,
        params: &[&dyn Param],
        read: fn(&tokio_postgres::Row) -> Result<T, Trouble>,
    ) -> Result<Vec<T>, Trouble> {
        let mut connection = self.database.connection().await?;
        connection.query(sql, params).await?.iter().map(read).collect()
    }

    /// The same in a tenant's name.
    pub(super) async fn read_all_of<T>(
        &self,
        tenant: &TenantId,
        sql: &'static str,
        params: &[&dyn Param],
        read: fn(&tokio_postgres::Row) -> Result<T, Trouble>,
    ) -> Result<Vec<T>, Trouble> {
        let mut connection = self.database.connection_of(tenant).await?;
        connection.query(sql, params).await?.iter().map(read).collect()
    }

    async fn run(&self, sql: &'static str, params: &[&dyn Param]) -> Result<(), Trouble> {
        let mut connection = self.database.connection().await?;
        connection.query(sql, params).await?;
        Ok(())
    }

    async fn try_tenant(&self, id: &TenantId) -> Result<Option<Tenant>, Trouble> {
        Ok(self.read_all(sql::TENANT, &[&id.as_str()], tenant).await?.pop())
    }

    async fn try_key(&self, id: &str) -> Result<Option<ApiKey>, Trouble> {
        Ok(self.read_all(sql::API_KEY, &[&&*without_nul(id)], key).await?.pop())
    }

    async fn try_create_tenant(
        &self,
        new: &Tenant,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, Trouble> {
        let row = TenantRow::of(new, self.clock.now())?;
        let connection = self.database.connection().await?;
        let (transaction, made) =
            connection.begin((sql::INSERT_TENANT, &row.to_insert()), None).await?;
        if made.is_empty() {
            transaction.roll_back().await?;
            let found = self.try_tenant(&new.id).await?;
            return Ok(found.filter(|found| found == new));
        }
        commit_noted(transaction, audit).await?;
        Ok(Some(new.clone()))
    }

    async fn try_change_tenant(
        &self,
        id: &TenantId,
        change: &TenantChange,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, Trouble> {
        let (transaction, found) = self.lock_tenant(id).await?;
        let Some(mut tenant) = found else {
            transaction.roll_back().await?;
            return Ok(None);
        };
        let now = self.clock.now();
        tenant.change(change, now);
        let row = TenantRow::of(&tenant, now)?;
        transaction.query(sql::SAVE_TENANT, &row.to_save()).await?;
        commit_noted(transaction, audit).await?;
        Ok(Some(tenant))
    }

    async fn try_apply_billing(
        &self,
        event: &BillingEvent,
        audit: &AuditEntry,
    ) -> Result<Vec<Tenant>, Trouble> {
        let connection = self.database.connection().await?;
        let billing_id = without_nul(&event.billing_id);
        let (transaction, rows) =
            connection.begin((sql::LOCK_BILLED_TENANTS, &[&&*billing_id]), None).await?;
        let mut tenants: Vec<Tenant> = rows.iter().map(tenant).collect::<Result<_, _>>()?;
        let now = self.clock.now();
        let id = without_nul(&event.id);
        let params: &[&dyn Param] = &[&&*id, &now.as_millis()];
        let is_known = tenants.is_empty()
            || transaction.query(sql::INSERT_BILLING_EVENT, params).await?.is_empty();
        if is_known {
            transaction.roll_back().await?;
            return Ok(tenants);
        }
        let mut entries = Vec::new();
        for (place, tenant) in tenants.iter_mut().enumerate() {
            if apply_billing(tenant, event, now) {
                let row = TenantRow::of(tenant, now)?;
                transaction.query(sql::SAVE_TENANT, &row.to_save()).await?;
                entries.push(audit.about(&tenant.id, place));
            }
        }
        transaction.commit_with(sql::INSERT_AUDIT, &AuditRows::of(&entries).params()).await?;
        Ok(tenants)
    }

    async fn try_create_key(
        &self,
        new: &NewKey,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, Trouble> {
        let (transaction, tenant) = self.lock_tenant(&new.tenant).await?;
        if tenant.is_none() {
            transaction.roll_back().await?;
            return Ok(None);
        }
        let made = ApiKey::made(new, None, now);
        insert_key(&transaction, &made).await?;
        commit_noted(transaction, audit).await?;
        Ok(Some(made))
    }

    async fn try_create_first_key(
        &self,
        new: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, Trouble> {
        let connection = self.database.connection().await?;
        let look: (&'static str, &[&dyn Param]) = (sql::ANY_API_KEY, &[]);
        let (transaction, any) = connection.begin((sql::LOCK_FIRST_KEY, &[]), Some(look)).await?;
        if !any.is_empty() {
            transaction.roll_back().await?;
            // The one that is there may be the one that this call made before its answer was lost.
            return self.try_key(&new.id).await;
        }
        let now = self.clock.now();
        let tenant = Tenant::new(new.tenant.clone(), new.tenant.as_str(), now);
        let row = TenantRow::of(&tenant, now)?;
        transaction.query(sql::INSERT_TENANT, &row.to_insert()).await?;
        let made = ApiKey::made(new, None, now);
        insert_key(&transaction, &made).await?;
        commit_noted(transaction, audit).await?;
        Ok(Some(made))
    }

    async fn try_rotate_key(
        &self,
        old: &str,
        new: &NewKey,
        old_ends_at: Timestamp,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, Trouble> {
        let connection = self.database.connection().await?;
        let old = without_nul(old);
        let params: &[&dyn Param] = &[&&*old, &old_ends_at.as_millis(), &now.as_millis()];
        let look: (&'static str, &[&dyn Param]) = (sql::API_KEY, &[&&*old]);
        // First look, then change: the end that it had decides.
        let (transaction, rows) = connection.begin(look, None).await?;
        let found = rows.first().map(key).transpose()?;
        if !found.is_some_and(|found| found.is_valid(now)) {
            transaction.roll_back().await?;
            return Ok(None);
        }
        transaction.query(sql::END_API_KEY, params).await?;
        let made = ApiKey::made(new, Some(&*old), now);
        insert_key(&transaction, &made).await?;
        commit_noted(transaction, audit).await?;
        Ok(Some(made))
    }

    async fn try_revoke_key(
        &self,
        id: &str,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, Trouble> {
        let connection = self.database.connection().await?;
        let params: &[&dyn Param] = &[&&*without_nul(id), &self.clock.now().as_millis()];
        let (transaction, ended) = connection.begin((sql::REVOKE_API_KEY, params), None).await?;
        if ended.is_empty() {
            transaction.roll_back().await?;
        } else {
            commit_noted(transaction, audit).await?;
        }
        self.try_key(id).await
    }

    async fn lock_tenant(&self, id: &TenantId) -> Result<(Transaction, Option<Tenant>), Trouble> {
        let connection = self.database.connection().await?;
        let params: &[&dyn Param] = &[&id.as_str()];
        let (transaction, rows) = connection.begin((sql::LOCK_TENANT, params), None).await?;
        let found = rows.first().map(tenant).transpose()?;
        Ok((transaction, found))
    }
}

/// Commits what was done together with who did it.
pub(super) async fn commit_noted(
    transaction: Transaction,
    audit: &AuditEntry,
) -> Result<(), Trouble> {
    let rows = AuditRows::of(std::slice::from_ref(audit));
    transaction.commit_with(sql::INSERT_AUDIT, &rows.params()).await?;
    Ok(())
}

async fn insert_key(transaction: &Transaction, made: &ApiKey) -> Result<(), Trouble> {
    let at = |instant: Option<Timestamp>| instant.map(Timestamp::as_millis);
    let (name, scopes) = (without_nul(&made.name), made.scopes.to_text());
    let digest = made.digest.bytes.to_vec();
    let rotated_from = made.rotated_from.as_deref();
    let params: [&dyn Param; 10] = [
        &made.id,
        &made.tenant.as_str(),
        &&*name,
        &scopes,
        &made.digest.server_key,
        &digest,
        &made.created_at.as_millis(),
        &at(made.expires_at),
        &made.requests_per_s.map(i64::from),
        &rotated_from,
    ];
    transaction.query(sql::INSERT_API_KEY, &params).await?;
    Ok(())
}
