//! The audit log.

use std::borrow::Cow;

use async_trait::async_trait;

use crate::job::{TenantId, Timestamp};
use crate::store::StoreError;
use crate::store::accounts::{AuditEntry, AuditFilter, AuditPage, AuditStore};
use crate::store::postgres::batch::columns;
use crate::store::postgres::connection::columns::{limit, without_nul};
use crate::store::postgres::connection::database::Transaction;
use crate::store::postgres::connection::error::PgError;
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::{PostgresStore, sql};
use crate::store::rows::AFTER_ALL_ENTRIES;

#[async_trait]
impl AuditStore for PostgresStore {
    async fn record_audit(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        let rows = AuditRows::of(entries);
        retrying!(self.inner.run(sql::INSERT_AUDIT, &rows.params())).map(|_| ())
    }

    async fn audit_log(&self, filter: &AuditFilter) -> Result<AuditPage, StoreError> {
        let before = without_nul(filter.before.as_deref().unwrap_or(AFTER_ALL_ENTRIES));
        let count = limit(filter.limit.saturating_add(1));
        let target = filter.target.as_deref().map(without_nul);
        let (sql, mut params): (_, Vec<&dyn Param>) = match (&target, &filter.tenant) {
            (Some(_), tenant) => (sql::AUDIT_OF_TARGET, vec![&target, tenant]),
            (None, Some(tenant)) => (sql::AUDIT_OF_TENANT, vec![tenant]),
            (None, None) => (sql::AUDIT, vec![]),
        };
        params.splice(0..0, [&before as &dyn Param, &count]);
        let entries = retrying!(async {
            match &filter.tenant {
                Some(tenant) => self.inner.all_of(tenant, sql, &params).await,
                None => self.inner.all(sql, &params).await,
            }
        });
        Ok(AuditPage::of(entries?, filter.limit))
    }

    async fn prune_audit(&self, before: Timestamp, count: usize) -> Result<usize, StoreError> {
        retrying!(self.inner.run(sql::FORGET_AUDIT, &[&before, &limit(count)]))
    }
}

/// Commits a change together with its audit entry.
pub(super) async fn commit_with_audit(
    transaction: Transaction,
    audit: &AuditEntry,
) -> Result<(), PgError> {
    let rows = AuditRows::of(std::slice::from_ref(audit));
    transaction.commit_with(sql::INSERT_AUDIT, &rows.params()).await?;
    Ok(())
}

columns! {
    /// An audit entry, in the order of the parameters of `insert_audit.sql`.
    pub(super) struct AuditRow<'a> => AuditRows {
        id: Cow<'a, str>,
        at: Timestamp,
        tenant: &'a TenantId,
        actor: Cow<'a, str>,
        action: Cow<'a, str>,
        target: Cow<'a, str>,
        detail: Cow<'a, str>,
        request_id: Cow<'a, str>,
    }
}

impl<'a> AuditRows<'a> {
    pub(super) fn of(entries: &'a [AuditEntry]) -> Self {
        let mut rows = Self::default();
        for entry in entries {
            rows.push(AuditRow {
                id: without_nul(&entry.id),
                at: entry.at,
                tenant: &entry.tenant,
                actor: without_nul(&entry.actor),
                action: without_nul(&entry.action),
                target: without_nul(&entry.target),
                detail: without_nul(&entry.detail),
                request_id: without_nul(&entry.request_id),
            });
        }
        rows
    }
}
