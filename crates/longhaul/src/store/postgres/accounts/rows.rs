//! How tenants, keys and audit entries are kept in columns.

use super::super::columns::{Columns, to_json, unreadable, without_nul};
use super::super::error::Trouble;
use super::super::params::Param;
use crate::job::{TenantId, Timestamp};
use crate::store::accounts::{ApiKey, AuditEntry, KeyDigest, Scopes, Subscription, Tenant};

/// A tenant's columns.
pub(super) struct TenantRow {
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
    pub(super) fn of(tenant: &Tenant, now: Timestamp) -> Result<Self, Trouble> {
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

    pub(super) fn to_insert(&self) -> Vec<&dyn Param> {
        let mut params = self.to_save();
        params.insert(7, &self.created_at);
        params
    }

    pub(super) fn to_save(&self) -> Vec<&dyn Param> {
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

/// Entries by column.
#[derive(Default)]
pub(super) struct AuditRows {
    ats: Vec<i64>,
    texts: [Vec<String>; 7],
}

impl AuditRows {
    pub(super) fn of(entries: &[AuditEntry]) -> Self {
        let mut rows = Self::default();
        for entry in entries {
            rows.ats.push(entry.at.as_millis());
            let AuditEntry { id, at: _, tenant, actor, action, target, detail, request_id } = entry;
            let texts = [id, tenant.as_str(), actor, action, target, detail, request_id];
            for (column, text) in rows.texts.iter_mut().zip(texts) {
                column.push(without_nul(text).into_owned());
            }
        }
        rows
    }

    pub(super) fn params(&self) -> [&dyn Param; 8] {
        let [id, tenant, actor, action, target, detail, request_id] = &self.texts;
        [id, &self.ats, tenant, actor, action, target, detail, request_id]
    }
}

pub(super) fn tenant_id(row: &tokio_postgres::Row) -> Result<TenantId, Trouble> {
    Columns::of(row).text(|text| TenantId::new(text).ok())
}

/// In the order of `tenant.sql`.
pub(super) fn tenant(row: &tokio_postgres::Row) -> Result<Tenant, Trouble> {
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
pub(super) fn key(row: &tokio_postgres::Row) -> Result<ApiKey, Trouble> {
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

/// In the order of `audit.sql`.
pub(super) fn entry(row: &tokio_postgres::Row) -> Result<AuditEntry, Trouble> {
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
