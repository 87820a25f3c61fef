//! API keys.

use async_trait::async_trait;
use rusqlite::params;

use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::accounts::{
    AccountChanges, ApiKey, ApiKeyStore, AuditEntry, KeyDigest, NewKey, Tenant,
};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::accounts::audit::{insert_audit, noted};
use crate::store::sqlite::accounts::tenants::{find_tenant, insert_tenant};
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

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
            if tx.exists(sql::ANY_API_KEY, [])? {
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
                    tx.all(sql::API_KEYS_OF_TENANT, params)?
                }
                None => tx.all(sql::API_KEYS, params![after, limit(count)])?,
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
                tx.run(sql::RECORD_API_KEY_USE, params![id, at.as_millis()])?;
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
            let keys = tx.all(sql::CHANGED_API_KEYS, [since])?;
            let tenants = tx.all(sql::CHANGED_TENANTS, [since])?;
            Ok(AccountChanges { keys, tenants })
        })
        .await
    }
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
    tx.one(sql::API_KEY, [id])
}
