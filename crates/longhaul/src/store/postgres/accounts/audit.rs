//! The audit log.

use crate::job::TenantId;
use crate::store::accounts::AuditEntry;
use crate::store::postgres::connection::columns::{Columns, without_nul};
use crate::store::postgres::connection::database::Transaction;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::sql;

/// Commits a change together with its audit entry.
pub(crate) async fn commit_with_audit(
    transaction: Transaction,
    audit: &AuditEntry,
) -> Result<(), PgError> {
    let rows = AuditRows::of(std::slice::from_ref(audit));
    transaction.commit_with(sql::INSERT_AUDIT, &rows.params()).await?;
    Ok(())
}

#[derive(Default)]
pub(crate) struct AuditRows {
    ats: Vec<i64>,
    texts: [Vec<String>; 7],
}

impl AuditRows {
    pub(crate) fn of(entries: &[AuditEntry]) -> Self {
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

    pub(crate) fn params(&self) -> [&dyn Param; 8] {
        let [id, tenant, actor, action, target, detail, request_id] = &self.texts;
        [id, &self.ats, tenant, actor, action, target, detail, request_id]
    }
}

/// Reads a row of `audit.sql`.
pub(crate) fn entry(row: &tokio_postgres::Row) -> Result<AuditEntry, PgError> {
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
