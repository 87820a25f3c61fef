//! Tenants, keys, and who did what.

use async_trait::async_trait;
use rusqlite::params;

use super::columns::{Columns, limit, to_json, unreadable};
use super::error::Trouble;
use super::task::Tx;
use super::{SqliteStore, sql};
use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::accounts::{
    AccountChanges, ApiKey, ApiKeyStore, AuditEntry, AuditFilter, AuditPage, AuditStore,
    BillingEvent, KeyDigest, NewKey, Scopes, Subscription, Tenant, TenantChange, TenantStore,
    apply_billing,
};

/// Comes after every id.
const LAST_ID: &str = "\u{10ffff}";

#[async_trait]
impl TenantStore for SqliteStore {
    async fn create_tenant(
        &self,
        tenant: &Tenant,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError> {
        let (tenant, audit) = (tenant.clone(), audit.clone());
        self.write(move |tx| {
            let made = insert_tenant(tx, &tenant)?;
            Ok(noted(tx, &audit, made.then(|| tenant.clone()))?)
        })
        .await
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<Tenant>, StoreError> {
        let id = id.clone();
        self.read(move |tx| Ok(find_tenant(tx, &id)?)).await
    }

    async fn tenants(
        &self,
        after: Option<&TenantId>,
        count: usize,
    ) -> Result<Vec<Tenant>, StoreError> {
        let after = after.map(ToString::to_string).unwrap_or_default();
        self.read(move |tx| Ok(tx.all(sql::TENANTS, params![after, limit(count)], tenant)?)).await
    }

    async fn change_tenant(
        &self,
        id: &TenantId,
        change: &TenantChange,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError> {
        let (id, change, audit) = (id.clone(), change.clone(), audit.clone());
        self.write(move |tx| {
            let mut found = find_tenant(tx, &id)?;
            if let Some(tenant) = &mut found {
                tenant.change(&change, tx.now);
                save_tenant(tx, tenant)?;
            }
            Ok(noted(tx, &audit, found)?)
        })
        .await
    }

    async fn apply_billing(
        &self,
        event: &BillingEvent,
        audit: &AuditEntry,
    ) -> Result<Vec<Tenant>, StoreError> {
        let (event, audit) = (event.clone(), audit.clone());
        self.write(move |tx| {
            let mut tenants = tx.all(sql::BILLED_TENANTS, [&event.billing_id], tenant)?;
            let at = tx.now.as_millis();
            if tenants.is_empty() || tx.run(sql::INSERT_BILLING_EVENT, params![event.id, at])? == 0
            {
                return Ok(tenants);
            }
            for (place, tenant) in tenants.iter_mut().enumerate() {
                if apply_billing(tenant, &event, tx.now) {
                    save_tenant(tx, tenant)?;
                    insert_audit(tx, &audit.about(&tenant.id, place))?;
                }
            }
            Ok(tenants)
        })
        .await
    }
}

#[async_trait]
impl ApiKeyStore for SqliteStore {
    async fn create_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        let (key, audit) = (key.clone(), audit.clone());
        self.write(move |tx| {
            if find_tenant(tx, &key.tenant)?.is_none() {
                return Ok(None);
            }
            let made = insert_key(tx, &key, None)?;
            Ok(noted(tx, &audit, Some(made))?)
        })
        .await
    }

    async fn create_first_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        let (key, audit) = (key.clone(), audit.clone());
        self.write(move |tx| {
            if tx.one(sql::ANY_API_KEY, [], |_| Ok(()))?.is_some() {
                return Ok(None);
            }
            insert_tenant(tx, &Tenant::new(key.tenant.clone(), key.tenant.as_str(), tx.now))?;
            let made = insert_key(tx, &key, None)?;
            Ok(noted(tx, &audit, Some(made))?)
        })
        .await
    }

    async fn rotate_key(
        &self,
        old: &str,
        key: &NewKey,
        old_ends_at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        let (old, key, audit) = (old.to_owned(), key.clone(), audit.clone());
        self.write(move |tx| {
            if !find_key(tx, &old)?.is_some_and(|found| found.is_valid(tx.now)) {
                return Ok(None);
            }
            tx.run(sql::END_API_KEY, params![old, old_ends_at.as_millis(), tx.now.as_millis()])?;
            let made = insert_key(tx, &key, Some(&old))?;
            Ok(noted(tx, &audit, Some(made))?)
        })
        .await
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError> {
        let id = id.to_owned();
        self.read(move |tx| Ok(find_key(tx, &id)?)).await
    }

    async fn keys(
        &self,
        tenant: Option<&TenantId>,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let (tenant, after) = (tenant.cloned(), after.unwrap_or_default().to_owned());
        self.read(move |tx| {
            Ok(match &tenant {
                Some(tenant) => {
                    let params = params![after, limit(count), tenant.as_str()];
                    tx.all(sql::API_KEYS_OF_TENANT, params, key)?
                }
                None => tx.all(sql::API_KEYS, params![after, limit(count)], key)?,
            })
        })
        .await
    }

    async fn revoke_key(&self, id: &str, audit: &AuditEntry) -> Result<Option<ApiKey>, StoreError> {
        let (id, audit) = (id.to_owned(), audit.clone());
        self.write(move |tx| {
            if tx.run(sql::REVOKE_API_KEY, params![id, tx.now.as_millis()])? == 1 {
                insert_audit(tx, &audit)?;
            }
            Ok(find_key(tx, &id)?)
        })
        .await
    }

    async fn record_key_use(&self, used: &[(String, Timestamp)]) -> Result<(), StoreError> {
        let used = used.to_vec();
        self.write(move |tx| {
            for (id, at) in &used {
                tx.run(sql::NOTE_USE, params![id, at.as_millis()])?;
            }
            Ok(())
        })
        .await
    }

    async fn replace_key_digest(&self, id: &str, digest: &KeyDigest) -> Result<(), StoreError> {
        let (id, digest) = (id.to_owned(), digest.clone());
        self.write(move |tx| {
            let params = params![id, digest.server_key, digest.bytes];
            tx.run(sql::REDIGEST_API_KEY, params)?;
            Ok(())
        })
        .await
    }

    async fn changed_since(&self, since: Timestamp) -> Result<AccountChanges, StoreError> {
        let since = since.as_millis();
        self.read(move |tx| {
            let keys = tx.all(sql::CHANGED_API_KEYS, [since], |row| row.get(0))?;
            let tenants = tx.all(sql::CHANGED_TENANTS, [since], tenant_id)?;
            Ok(AccountChanges { keys, tenants })
        })
        .await
    }
}

#[async_trait]
impl AuditStore for SqliteStore {
    async fn record_audit(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        let entries = entries.to_vec();
        self.write(move |tx| Ok(entries.iter().try_for_each(|entry| insert_audit(tx, entry))?))
            .await
    }

    async fn audit_log(&self, filter: &AuditFilter) -> Result<AuditPage, StoreError> {
        let filter = filter.clone();
        self.read(move |tx| {
            let before = filter.before.as_deref().unwrap_or(LAST_ID);
            let count = limit(filter.limit.saturating_add(1));
            let tenant = filter.tenant.as_ref().map(TenantId::as_str);
            let entries = match (&filter.target, tenant) {
                (Some(target), tenant) => {
                    tx.all(sql::AUDIT_OF_TARGET, params![before, count, target, tenant], entry)?
                }
                (None, Some(tenant)) => {
                    tx.all(sql::AUDIT_OF_TENANT, params![before, count, tenant], entry)?
                }
                (None, None) => tx.all(sql::AUDIT, params![before, count], entry)?,
            };
            Ok(AuditPage::of(entries, filter.limit))
        })
        .await
    }

    async fn prune_audit(&self, before: Timestamp, count: usize) -> Result<usize, StoreError> {
        self.write(move |tx| Ok(tx.run(sql::FORGET_AUDIT, [before.as_millis(), limit(count)])?))
            .await
    }
}

impl SqliteStore {
    pub(super) async fn write<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Tx<'_>) -> Result<T, Trouble> + Send + 'static,
    {
        self.writer.call(body).await
    }
}

/// Writes down what was done, if it was.
fn noted<T>(tx: &Tx<'_>, audit: &AuditEntry, done: Option<T>) -> rusqlite::Result<Option<T>> {
    if done.is_some() {
        insert_audit(tx, audit)?;
    }
    Ok(done)
}

pub(super) fn insert_audit(tx: &Tx<'_>, entry: &AuditEntry) -> rusqlite::Result<()> {
    let AuditEntry { id, at, tenant, actor, action, target, detail, request_id } = entry;
    let params =
        params![id, at.as_millis(), tenant.as_str(), actor, action, target, detail, request_id];
    tx.run(sql::INSERT_AUDIT, params).map(|_| ())
}

/// Whether it was not there before.
fn insert_tenant(tx: &Tx<'_>, tenant: &Tenant) -> rusqlite::Result<bool> {
    let params = params![
        tenant.id.as_str(),
        tenant.name,
        tenant.subscription.as_str(),
        tenant.inactive_since.map(Timestamp::as_millis),
        to_json(&tenant.limits)?,
        tenant.billing_id,
        tenant.billed_at.map(Timestamp::as_millis),
        tenant.created_at.as_millis(),
        tx.now.as_millis(),
    ];
    tx.run(sql::INSERT_TENANT, params).map(|rows| rows == 1)
}

fn save_tenant(tx: &Tx<'_>, tenant: &Tenant) -> rusqlite::Result<()> {
    let params = params![
        tenant.id.as_str(),
        tenant.name,
        tenant.subscription.as_str(),
        tenant.inactive_since.map(Timestamp::as_millis),
        to_json(&tenant.limits)?,
        tenant.billing_id,
        tenant.billed_at.map(Timestamp::as_millis),
        tx.now.as_millis(),
    ];
    tx.run(sql::SAVE_TENANT, params).map(|_| ())
}

fn find_tenant(tx: &Tx<'_>, id: &TenantId) -> rusqlite::Result<Option<Tenant>> {
    tx.one(sql::TENANT, [id.as_str()], tenant)
}

fn insert_key(tx: &Tx<'_>, new: &NewKey, old: Option<&str>) -> rusqlite::Result<ApiKey> {
    let made = ApiKey::made(new, old, tx.now);
    let params = params![
        made.id,
        made.tenant.as_str(),
        made.name,
        made.scopes.to_text(),
        made.digest.server_key,
        made.digest.bytes,
        made.created_at.as_millis(),
        made.expires_at.map(Timestamp::as_millis),
        made.requests_per_s,
        made.rotated_from,
    ];
    tx.run(sql::INSERT_API_KEY, params)?;
    Ok(made)
}

fn find_key(tx: &Tx<'_>, id: &str) -> rusqlite::Result<Option<ApiKey>> {
    tx.one(sql::API_KEY, [id], key)
}

fn tenant_id(row: &rusqlite::Row<'_>) -> rusqlite::Result<TenantId> {
    Columns::of(row).text(|text| TenantId::new(text).ok())
}

/// In the order of `tenant.sql`.
fn tenant(row: &rusqlite::Row<'_>) -> rusqlite::Result<Tenant> {
    let mut columns = Columns::of(row);
    Ok(Tenant {
        id: columns.text(|text| TenantId::new(text).ok())?,
        name: columns.get()?,
        subscription: columns.text(Subscription::parse)?,
        inactive_since: columns.opt_at()?,
        limits: columns.opt_json()?.unwrap_or_default(),
        billing_id: columns.get()?,
        billed_at: columns.opt_at()?,
        created_at: columns.at()?,
    })
}

/// In the order of `api_key.sql`.
fn key(row: &rusqlite::Row<'_>) -> rusqlite::Result<ApiKey> {
    let mut columns = Columns::of(row);
    Ok(ApiKey {
        id: columns.get()?,
        tenant: columns.text(|text| TenantId::new(text).ok())?,
        name: columns.get()?,
        scopes: columns.text(Scopes::from_text)?,
        digest: KeyDigest { server_key: columns.get()?, bytes: columns.get()? },
        created_at: columns.at()?,
        expires_at: columns.opt_at()?,
        revoked_at: columns.opt_at()?,
        last_used_at: columns.opt_at()?,
        requests_per_s: columns
            .get::<Option<i64>>()?
            .map(u32::try_from)
            .transpose()
            .map_err(unreadable)?,
        rotated_from: columns.get()?,
    })
}

/// In the order of `audit.sql`.
fn entry(row: &rusqlite::Row<'_>) -> rusqlite::Result<AuditEntry> {
    let mut columns = Columns::of(row);
    Ok(AuditEntry {
        id: columns.get()?,
        at: columns.at()?,
        tenant: columns.text(|text| TenantId::new(text).ok())?,
        actor: columns.get()?,
        action: columns.get()?,
        target: columns.get()?,
        detail: columns.get()?,
        request_id: columns.get()?,
    })
}
