//! Tenants.

use async_trait::async_trait;
use rusqlite::params;

use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::accounts::{
    AuditEntry, BillingEvent, Tenant, TenantChange, TenantStore, apply_billing,
};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::accounts::audit::{insert_audit, noted};
use crate::store::sqlite::connection::columns::{limit, to_json};
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

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
        self.read(move |tx| Ok(tx.all(sql::TENANTS, params![after, limit(count)])?)).await
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
                write_tenant(tx, sql::SAVE_TENANT, tenant)?;
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
            let mut tenants = tx.all(sql::BILLED_TENANTS, [&event.billing_id])?;
            let at = tx.now.as_millis();
            if tenants.is_empty() || tx.run(sql::INSERT_BILLING_EVENT, params![event.id, at])? == 0
            {
                return Ok(tenants);
            }
            for (place, tenant) in tenants.iter_mut().enumerate() {
                if apply_billing(tenant, &event, tx.now) {
                    write_tenant(tx, sql::SAVE_TENANT, tenant)?;
                    insert_audit(tx, &audit.about(&tenant.id, place))?;
                }
            }
            Ok(tenants)
        })
        .await
    }
}

/// Returns false if the tenant exists.
pub(crate) fn insert_tenant(tx: &Tx<'_>, tenant: &Tenant) -> rusqlite::Result<bool> {
    write_tenant(tx, sql::INSERT_TENANT, tenant).map(|rows| rows == 1)
}

fn write_tenant(tx: &Tx<'_>, sql: &'static str, tenant: &Tenant) -> rusqlite::Result<usize> {
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
    tx.run(sql, params)
}

pub(crate) fn find_tenant(tx: &Tx<'_>, id: &TenantId) -> rusqlite::Result<Option<Tenant>> {
    tx.one(sql::TENANT, [id.as_str()])
}
