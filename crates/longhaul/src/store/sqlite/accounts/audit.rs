//! The audit log.

use async_trait::async_trait;
use rusqlite::params;

use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::accounts::{AuditEntry, AuditFilter, AuditPage, AuditStore};
use crate::store::rows::AFTER_ALL_ENTRIES;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

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
            let before = filter.before.as_deref().unwrap_or(AFTER_ALL_ENTRIES);
            let count = limit(filter.limit.saturating_add(1));
            let tenant = filter.tenant.as_ref().map(TenantId::as_str);
            let entries = match (&filter.target, tenant) {
                (Some(target), tenant) => {
                    tx.all(sql::AUDIT_OF_TARGET, params![before, count, target, tenant])?
                }
                (None, Some(tenant)) => {
                    tx.all(sql::AUDIT_OF_TENANT, params![before, count, tenant])?
                }
                (None, None) => tx.all(sql::AUDIT, params![before, count])?,
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
