//! The audit log.

use async_trait::async_trait;
use rusqlite::params;

use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::accounts::{AuditEntry, AuditFilter, AuditPage, AuditStore};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::connection::columns::{Columns, limit};
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

/// Sorts after every id.
const LAST_ID: &str = "\u{10ffff}";

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

pub(crate) fn insert_audit(tx: &Tx<'_>, entry: &AuditEntry) -> rusqlite::Result<()> {
    let AuditEntry { id, at, tenant, actor, action, target, detail, request_id } = entry;
    let params =
        params![id, at.as_millis(), tenant.as_str(), actor, action, target, detail, request_id];
    tx.run(sql::INSERT_AUDIT, params).map(|_| ())
}

/// Appends the audit entry if the change was made.
pub(crate) fn noted<T>(
    tx: &Tx<'_>,
    audit: &AuditEntry,
    done: Option<T>,
) -> rusqlite::Result<Option<T>> {
    if done.is_some() {
        insert_audit(tx, audit)?;
    }
    Ok(done)
}

/// Reads the columns of `audit.sql`.
pub(crate) fn entry(row: &rusqlite::Row<'_>) -> rusqlite::Result<AuditEntry> {
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
