//! Tenants and their billing.

use super::audit::{AuditRows, commit_with_audit};
use crate::job::{TenantId, Timestamp};
use crate::store::accounts::{
    AuditEntry, BillingEvent, Subscription, Tenant, TenantChange, apply_billing,
};
use crate::store::postgres::connection::columns::{Columns, to_json, without_nul};
use crate::store::postgres::connection::database::Transaction;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::{Inner, sql};

impl Inner {
    pub(crate) async fn try_tenant(&self, id: &TenantId) -> Result<Option<Tenant>, PgError> {
        Ok(self.read_all(sql::TENANT, &[&id.as_str()], tenant).await?.pop())
    }

    pub(crate) async fn try_create_tenant(
        &self,
        new: &Tenant,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, PgError> {
        let row = TenantRow::of(new, self.clock.now())?;
        let connection = self.database.connection().await?;
        let (transaction, made) =
            connection.begin((sql::INSERT_TENANT, &row.to_insert()), None).await?;
        if made.is_empty() {
            transaction.roll_back().await?;
            let found = self.try_tenant(&new.id).await?;
            return Ok(found.filter(|found| found == new));
        }
        commit_with_audit(transaction, audit).await?;
        Ok(Some(new.clone()))
    }

    pub(crate) async fn try_change_tenant(
        &self,
        id: &TenantId,
        change: &TenantChange,
        audit: &AuditEntry,
    ) -> Result<Option<Tenant>, PgError> {
        let (transaction, found) = self.lock_tenant(id).await?;
        let Some(mut tenant) = found else {
            transaction.roll_back().await?;
            return Ok(None);
        };
        let now = self.clock.now();
        tenant.change(change, now);
        let row = TenantRow::of(&tenant, now)?;
        transaction.query(sql::SAVE_TENANT, &row.to_save()).await?;
        commit_with_audit(transaction, audit).await?;
        Ok(Some(tenant))
    }

    pub(crate) async fn try_apply_billing(
        &self,
        event: &BillingEvent,
        audit: &AuditEntry,
    ) -> Result<Vec<Tenant>, PgError> {
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

    pub(crate) async fn lock_tenant(
        &self,
        id: &TenantId,
    ) -> Result<(Transaction, Option<Tenant>), PgError> {
        let connection = self.database.connection().await?;
        let params: &[&dyn Param] = &[&id.as_str()];
        let (transaction, rows) = connection.begin((sql::LOCK_TENANT, params), None).await?;
        let found = rows.first().map(tenant).transpose()?;
        Ok((transaction, found))
    }
}

pub(crate) struct TenantRow {
    id: String,
    name: String,
    subscription: &'static str,
    inactive_since: Option<i64>,
    limits: String,
    billing_id: Option<String>,
    billed_at: Option<i64>,
    created_at: i64,
    changed_at: i64,
}

impl TenantRow {
    pub(crate) fn of(tenant: &Tenant, now: Timestamp) -> Result<Self, PgError> {
        Ok(Self {
            id: tenant.id.to_string(),
            name: without_nul(&tenant.name).into_owned(),
            subscription: tenant.subscription.as_str(),
            inactive_since: tenant.inactive_since.map(Timestamp::as_millis),
            limits: to_json(&tenant.limits)?,
            billing_id: tenant.billing_id.as_deref().map(|id| without_nul(id).into_owned()),
            billed_at: tenant.billed_at.map(Timestamp::as_millis),
            created_at: tenant.created_at.as_millis(),
            changed_at: now.as_millis(),
        })
    }

    pub(crate) fn to_insert(&self) -> Vec<&dyn Param> {
        let mut params = self.to_save();
        params.insert(7, &self.created_at);
        params
    }

    pub(crate) fn to_save(&self) -> Vec<&dyn Param> {
        vec![
            &self.id,
            &self.name,
            &self.subscription,
            &self.inactive_since,
            &self.limits,
            &self.billing_id,
            &self.billed_at,
            &self.changed_at,
        ]
    }
}

pub(crate) fn tenant_id(row: &tokio_postgres::Row) -> Result<TenantId, PgError> {
    Columns::of(row).text(|text| TenantId::new(text).ok())
}

/// Reads a row of `tenant.sql`.
pub(crate) fn tenant(row: &tokio_postgres::Row) -> Result<Tenant, PgError> {
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
