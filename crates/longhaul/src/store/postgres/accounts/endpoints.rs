//! Webhook endpoints.

use std::time::Duration;

use async_trait::async_trait;

use super::audit::commit_with_audit;
use crate::job::TenantId;
use crate::store::StoreError;
use crate::store::accounts::AuditEntry;
use crate::store::endpoints::{Endpoint, EndpointChange, Endpoints};
use crate::store::postgres::connection::columns::{limit, read_first, without_nul};
use crate::store::postgres::connection::params::{Param, ParamList, param_list};
use crate::store::postgres::outbox::CACHE_TTL;
use crate::store::postgres::{PostgresStore, sql};

#[async_trait]
impl Endpoints for PostgresStore {
    async fn create_endpoint(
        &self,
        endpoint: &Endpoint,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let row = endpoint_row(endpoint);
        retrying!(async {
            let connection = self.inner.database.connection().await?;
            let (transaction, _) =
                connection.begin((sql::SAVE_ENDPOINT, &row.params()), None).await?;
            commit_with_audit(transaction, audit).await?;
            self.inner.subscriptions.clear();
            Ok(())
        })
    }

    async fn endpoint(&self, tenant: &TenantId, id: &str) -> Result<Option<Endpoint>, StoreError> {
        retrying!(self.inner.first_of(tenant, sql::ENDPOINT, &[tenant, &without_nul(id)]))
    }

    async fn endpoints(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<Endpoint>, StoreError> {
        let after = without_nul(after.unwrap_or_default());
        let params: &[&dyn Param] = &[tenant, &after, &limit(count)];
        retrying!(self.inner.all_of(tenant, sql::ENDPOINTS, params))
    }

    async fn change_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EndpointChange,
        audit: &AuditEntry,
    ) -> Result<Option<Endpoint>, StoreError> {
        retrying!(async {
            let connection = self.inner.database.connection().await?;
            let key: &[&dyn Param] = &[tenant, &without_nul(id)];
            let (transaction, rows) = connection.begin((sql::LOCK_ENDPOINT, key), None).await?;
            let found: Option<Endpoint> = read_first(&rows)?;
            let Some(mut endpoint) = found else {
                transaction.roll_back().await?;
                return Ok(None);
            };
            endpoint.change(change, self.inner.clock.now());
            transaction.query(sql::SAVE_ENDPOINT, &endpoint_row(&endpoint).params()).await?;
            commit_with_audit(transaction, audit).await?;
            self.inner.subscriptions.clear();
            Ok(Some(endpoint))
        })
    }

    async fn delete_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        audit: &AuditEntry,
    ) -> Result<bool, StoreError> {
        retrying!(is_retry => async {
            let connection = self.inner.database.connection().await?;
            let key: &[&dyn Param] = &[tenant, &without_nul(id)];
            let (transaction, rows) = connection.begin((sql::DELETE_ENDPOINT, key), None).await?;
            if rows.is_empty() {
                transaction.roll_back().await?;
                // An earlier attempt whose response was lost may have deleted it.
                return Ok(is_retry);
            }
            commit_with_audit(transaction, audit).await?;
            self.inner.subscriptions.clear();
            Ok(true)
        })
    }

    fn endpoint_propagation(&self) -> Duration {
        CACHE_TTL
    }
}

/// Returns the parameters of `save_endpoint.sql`.
fn endpoint_row(endpoint: &Endpoint) -> ParamList<'_> {
    let former = endpoint.former_secret.as_ref();
    param_list![
        &endpoint.tenant,
        without_nul(&endpoint.id),
        without_nul(&endpoint.url),
        without_nul(&endpoint.description),
        endpoint.events.to_words(),
        endpoint.full,
        endpoint.enabled,
        endpoint.disabled_reason.as_deref().map(without_nul),
        without_nul(&endpoint.sealed_secret),
        former.map(|(secret, _)| without_nul(secret)),
        former.map(|(_, until)| *until),
        endpoint.created_at,
        endpoint.changed_at,
    ]
}
