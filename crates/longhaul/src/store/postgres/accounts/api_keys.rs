//! API keys.

use async_trait::async_trait;

use super::audit::commit_with_audit;
use super::tenants::tenant_row;
use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::accounts::{
    AccountChanges, ApiKey, ApiKeyStore, AuditEntry, KeyDigest, NewKey, Tenant,
};
use crate::store::postgres::connection::columns::{limit, read_first, without_nul};
use crate::store::postgres::connection::database::Transaction;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::{Inner, PostgresStore, sql};

#[async_trait]
impl ApiKeyStore for PostgresStore {
    async fn create_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        let made = ApiKey::made(key, None, self.inner.clock.now());
        retrying!(async {
            let (transaction, tenant) = self.inner.lock_tenant(&key.tenant).await?;
            if tenant.is_none() {
                transaction.roll_back().await?;
                return Ok(None);
            }
            insert_key(&transaction, &made).await?;
            commit_with_audit(transaction, audit).await?;
            Ok(Some(made.clone()))
        })
    }

    async fn create_first_key(
        &self,
        key: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        retrying!(async {
            let connection = self.inner.database.connection().await?;
            let any_key: (&'static str, &[&dyn Param]) = (sql::ANY_API_KEY, &[]);
            let (transaction, any) =
                connection.begin((sql::LOCK_FIRST_KEY, &[]), Some(any_key)).await?;
            if !any.is_empty() {
                transaction.roll_back().await?;
                // An existing key may be the one that this call created before its response was lost.
                return self.inner.api_key(&key.id).await;
            }
            let now = self.inner.clock.now();
            let tenant = Tenant::new(key.tenant.clone(), key.tenant.as_str(), now);
            transaction.query(sql::INSERT_TENANT, &tenant_row(&tenant, now)?.params()).await?;
            let made = ApiKey::made(key, None, now);
            insert_key(&transaction, &made).await?;
            commit_with_audit(transaction, audit).await?;
            Ok(Some(made))
        })
    }

    async fn rotate_key(
        &self,
        old: &str,
        key: &NewKey,
        old_ends_at: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, StoreError> {
        let (old, now) = (without_nul(old), self.inner.clock.now());
        retrying!(async {
            let connection = self.inner.database.connection().await?;
            // Reads before writing, because the previous expiry decides the result.
            let (transaction, rows) = connection.begin((sql::API_KEY, &[&old]), None).await?;
            let found: Option<ApiKey> = read_first(&rows)?;
            if !found.is_some_and(|found| found.is_valid(now)) {
                transaction.roll_back().await?;
                return Ok(None);
            }
            transaction.query(sql::END_API_KEY, &[&old, &old_ends_at, &now]).await?;
            let made = ApiKey::made(key, Some(&*old), now);
            insert_key(&transaction, &made).await?;
            commit_with_audit(transaction, audit).await?;
            Ok(Some(made))
        })
    }

    async fn key(&self, id: &str) -> Result<Option<ApiKey>, StoreError> {
        retrying!(self.inner.api_key(id))
    }

    async fn keys(
        &self,
        tenant: Option<&TenantId>,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let (after, count) = (without_nul(after.unwrap_or_default()), limit(count));
        let Some(tenant) = tenant else {
            return retrying!(self.inner.all(sql::API_KEYS, &[&after, &count]));
        };
        let params: &[&dyn Param] = &[&after, &count, tenant];
        retrying!(self.inner.all_of(tenant, sql::API_KEYS_OF_TENANT, params))
    }

    async fn revoke_key(&self, id: &str, audit: &AuditEntry) -> Result<Option<ApiKey>, StoreError> {
        retrying!(async {
            let connection = self.inner.database.connection().await?;
            let params: &[&dyn Param] = &[&without_nul(id), &self.inner.clock.now()];
            let (transaction, ended) =
                connection.begin((sql::REVOKE_API_KEY, params), None).await?;
            if ended.is_empty() {
                transaction.roll_back().await?;
            } else {
                commit_with_audit(transaction, audit).await?;
            }
            self.inner.api_key(id).await
        })
    }

    async fn record_key_use(&self, used: &[(String, Timestamp)]) -> Result<(), StoreError> {
        let mut used = used.to_vec();
        // All replicas lock rows in the same order, so that they cannot deadlock.
        used.sort_unstable();
        let (ids, ats): (Vec<String>, Vec<Timestamp>) = used.into_iter().unzip();
        retrying!(self.inner.run(sql::RECORD_API_KEY_USE, &[&ids, &ats])).map(|_| ())
    }

    async fn replace_key_digest(&self, id: &str, digest: &KeyDigest) -> Result<(), StoreError> {
        let params: &[&dyn Param] = &[&id, &digest.server_key, &&digest.bytes[..]];
        retrying!(self.inner.run(sql::REDIGEST_API_KEY, params)).map(|_| ())
    }

    async fn changed_since(&self, since: Timestamp) -> Result<AccountChanges, StoreError> {
        retrying!(async {
            Ok(AccountChanges {
                keys: self.inner.all(sql::CHANGED_API_KEYS, &[&since]).await?,
                tenants: self.inner.all(sql::CHANGED_TENANTS, &[&since]).await?,
            })
        })
    }
}

impl Inner {
    async fn api_key(&self, id: &str) -> Result<Option<ApiKey>, PgError> {
        self.first(sql::API_KEY, &[&without_nul(id)]).await
    }
}

async fn insert_key(transaction: &Transaction, made: &ApiKey) -> Result<(), PgError> {
    let params: [&dyn Param; 10] = [
        &made.id,
        &made.tenant,
        &without_nul(&made.name),
        &made.scopes.to_text(),
        &made.digest.server_key,
        &&made.digest.bytes[..],
        &made.created_at,
        &made.expires_at,
        &made.requests_per_s.map(i64::from),
        &made.rotated_from,
    ];
    transaction.query(sql::INSERT_API_KEY, &params).await?;
    Ok(())
}
