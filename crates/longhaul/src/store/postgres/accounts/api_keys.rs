//! API keys.

use super::audit::commit_with_audit;
use super::tenants::TenantRow;
use crate::job::{TenantId, Timestamp};
use crate::store::accounts::{ApiKey, AuditEntry, KeyDigest, NewKey, Scopes, Tenant};
use crate::store::postgres::connection::columns::{Columns, unreadable, without_nul};
use crate::store::postgres::connection::database::Transaction;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::{Inner, sql};

impl Inner {
    pub(crate) async fn try_key(&self, id: &str) -> Result<Option<ApiKey>, PgError> {
        Ok(self.read_all(sql::API_KEY, &[&&*without_nul(id)], key).await?.pop())
    }

    pub(crate) async fn try_create_key(
        &self,
        new: &NewKey,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, PgError> {
        let (transaction, tenant) = self.lock_tenant(&new.tenant).await?;
        if tenant.is_none() {
            transaction.roll_back().await?;
            return Ok(None);
        }
        let made = ApiKey::made(new, None, now);
        insert_key(&transaction, &made).await?;
        commit_with_audit(transaction, audit).await?;
        Ok(Some(made))
    }

    pub(crate) async fn try_create_first_key(
        &self,
        new: &NewKey,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, PgError> {
        let connection = self.database.connection().await?;
        let look: (&'static str, &[&dyn Param]) = (sql::ANY_API_KEY, &[]);
        let (transaction, any) = connection.begin((sql::LOCK_FIRST_KEY, &[]), Some(look)).await?;
        if !any.is_empty() {
            transaction.roll_back().await?;
            // An existing key may be the one that this call created before its response was lost.
            return self.try_key(&new.id).await;
        }
        let now = self.clock.now();
        let tenant = Tenant::new(new.tenant.clone(), new.tenant.as_str(), now);
        let row = TenantRow::of(&tenant, now)?;
        transaction.query(sql::INSERT_TENANT, &row.to_insert()).await?;
        let made = ApiKey::made(new, None, now);
        insert_key(&transaction, &made).await?;
        commit_with_audit(transaction, audit).await?;
        Ok(Some(made))
    }

    pub(crate) async fn try_rotate_key(
        &self,
        old: &str,
        new: &NewKey,
        old_ends_at: Timestamp,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, PgError> {
        let connection = self.database.connection().await?;
        let old = without_nul(old);
        let params: &[&dyn Param] = &[&&*old, &old_ends_at.as_millis(), &now.as_millis()];
        let look: (&'static str, &[&dyn Param]) = (sql::API_KEY, &[&&*old]);
        // Reads before writing, because the previous expiry decides the result.
        let (transaction, rows) = connection.begin(look, None).await?;
        let found = rows.first().map(key).transpose()?;
        if !found.is_some_and(|found| found.is_valid(now)) {
            transaction.roll_back().await?;
            return Ok(None);
        }
        transaction.query(sql::END_API_KEY, params).await?;
        let made = ApiKey::made(new, Some(&*old), now);
        insert_key(&transaction, &made).await?;
        commit_with_audit(transaction, audit).await?;
        Ok(Some(made))
    }

    pub(crate) async fn try_revoke_key(
        &self,
        id: &str,
        audit: &AuditEntry,
    ) -> Result<Option<ApiKey>, PgError> {
        let connection = self.database.connection().await?;
        let params: &[&dyn Param] = &[&&*without_nul(id), &self.clock.now().as_millis()];
        let (transaction, ended) = connection.begin((sql::REVOKE_API_KEY, params), None).await?;
        if ended.is_empty() {
            transaction.roll_back().await?;
        } else {
            commit_with_audit(transaction, audit).await?;
        }
        self.try_key(id).await
    }
}

async fn insert_key(transaction: &Transaction, made: &ApiKey) -> Result<(), PgError> {
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

/// Reads a row of `api_key.sql`.
pub(crate) fn key(row: &tokio_postgres::Row) -> Result<ApiKey, PgError> {
    let mut columns = Columns::of(row);
    let (id, tenant) = (columns.get()?, columns.text(|text| TenantId::new(text).ok())?);
    let (name, scopes) = (columns.get()?, columns.text(Scopes::from_text)?);
    let server_key = columns.get()?;
    let bytes = <[u8; 32]>::try_from(columns.get::<&[u8]>()?).map_err(unreadable)?;
    Ok(ApiKey {
        id,
        tenant,
        name,
        scopes,
        digest: KeyDigest { server_key, bytes },
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
