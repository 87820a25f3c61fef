//! Tenants and their billing.

use async_trait::async_trait;

use super::audit::{AuditRows, commit_with_audit};
use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::accounts::{
    AuditEntry, BillingEvent, Tenant, TenantChange, TenantStore, apply_billing,
};
use crate::store::postgres::connection::columns::{
    limit, read_all, read_first, to_json, without_nul,
};
use crate::store::postgres::connection::database::Transaction;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::{ParamList, param_list};
use crate::store::postgres::{Inner, PostgresStore, sql};

#[async_trait]
impl TenantStore for PostgresStore {
    async fn create_tenant(
        &self,
        tenant: &Tenant,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError> {
        retrying!(async {
            let row = tenant_row(tenant, self.inner.clock.now())?;
            let connection = self.inner.database.connection().await?;
            let (transaction, made) =
                connection.begin((sql::INSERT_TENANT, &row.params()), None).await?;
            if made.is_empty() {
                transaction.roll_back().await?;
                let found: Option<Tenant> = self.inner.first(sql::TENANT, &[&tenant.id]).await?;
                return Ok(found.filter(|found| found == tenant));
            }
            commit_with_audit(transaction, audit).await?;
            Ok(Some(tenant.clone()))
        })
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<Tenant>, StoreError> {
        retrying!(self.inner.first(sql::TENANT, &[id]))
    }

    async fn tenants(
        &self,
        after: Option<&TenantId>,
        count: usize,
    ) -> Result<Vec<Tenant>, StoreError> {
        let after = after.map_or("", TenantId::as_str);
        retrying!(self.inner.all(sql::TENANTS, &[&after, &limit(count)]))
    }

    async fn change_tenant(
        &self,
        id: &TenantId,
        change: &TenantChange,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, StoreError> {
        retrying!(async {
            let (transaction, found) = self.inner.lock_tenant(id).await?;
            let Some(mut tenant) = found else {
                transaction.roll_back().await?;
                return Ok(None);
            };
            let now = self.inner.clock.now();
            tenant.change(change, now);
            transaction.query(sql::SAVE_TENANT, &tenant_row(&tenant, now)?.params()).await?;
            commit_with_audit(transaction, audit).await?;
            Ok(Some(tenant))
        })
    }

    async fn apply_billing(
        &self,
        event: &BillingEvent,
        audit: &AuditEntry,
    ) -> Result<Vec<Tenant>, StoreError> {
        let (id, billing_id) = (without_nul(&event.id), without_nul(&event.billing_id));
        retrying!(async {
            let connection = self.inner.database.connection().await?;
            let (transaction, rows) =
                connection.begin((sql::LOCK_BILLED_TENANTS, &[&billing_id]), None).await?;
            let mut tenants: Vec<Tenant> = read_all(&rows)?;
            let now = self.inner.clock.now();
            let is_known = tenants.is_empty()
                || transaction.query(sql::INSERT_BILLING_EVENT, &[&id, &now]).await?.is_empty();
            if is_known {
                transaction.roll_back().await?;
                return Ok(tenants);
            }
            let mut entries = Vec::new();
            for (index, tenant) in tenants.iter_mut().enumerate() {
                if apply_billing(tenant, event, now) {
                    transaction.query(sql::SAVE_TENANT, &tenant_row(tenant, now)?.params()).await?;
                    entries.push(audit.about(&tenant.id, index));
                }
            }
            transaction.commit_with(sql::INSERT_AUDIT, &AuditRows::of(&entries).params()).await?;
            Ok(tenants)
        })
    }
}

impl Inner {
    pub(super) async fn lock_tenant(
        &self,
        id: &TenantId,
    ) -> Result<(Transaction, Option<Tenant>), PgError> {
        let connection = self.database.connection().await?;
        let (transaction, rows) = connection.begin((sql::LOCK_TENANT, &[id]), None).await?;
        Ok((transaction, read_first(&rows)?))
    }
}

/// Returns the parameters of `insert_tenant.sql` and `save_tenant.sql`.
pub(super) fn tenant_row(tenant: &Tenant, now: Timestamp) -> Result<ParamList<'_>, PgError> {
    Ok(param_list![
        &tenant.id,
        without_nul(&tenant.name),
        tenant.subscription.as_str(),
        tenant.inactive_since,
        to_json(&tenant.limits)?,
        tenant.billing_id.as_deref().map(without_nul),
        tenant.billed_at,
        tenant.created_at,
        now,
    ])
}
