//! Webhook endpoints.

use async_trait::async_trait;
use rusqlite::params;

use crate::job::TenantId;
use crate::store::StoreError;
use crate::store::accounts::AuditEntry;
use crate::store::endpoints::{Endpoint, EndpointChange, Endpoints};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::accounts::audit::insert_audit;
use crate::store::sqlite::connection::columns::limit;
use crate::store::sqlite::connection::task::Tx;
use crate::store::sqlite::sql;

#[async_trait]
impl Endpoints for SqliteStore {
    async fn create_endpoint(
        &self,
        endpoint: &Endpoint,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let (endpoint, audit) = (endpoint.clone(), audit.clone());
        self.write(move |tx| {
            save(tx, &endpoint)?;
            Ok(insert_audit(tx, &audit)?)
        })
        .await
    }

    async fn endpoint(&self, tenant: &TenantId, id: &str) -> Result<Option<Endpoint>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        self.read(move |tx| Ok(find(tx, &tenant, &id)?)).await
    }

    async fn endpoints(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<Endpoint>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.unwrap_or_default().to_owned());
        self.read(move |tx| {
            Ok(tx.all(sql::ENDPOINTS, params![tenant.as_str(), after, limit(count)])?)
        })
        .await
    }

    async fn change_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EndpointChange,
        audit: &AuditEntry,
    ) -> Result<Option<Endpoint>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        let (change, audit) = (change.clone(), audit.clone());
        self.write(move |tx| {
            let Some(mut found) = find(tx, &tenant, &id)? else { return Ok(None) };
            found.change(&change, tx.now);
            save(tx, &found)?;
            insert_audit(tx, &audit)?;
            Ok(Some(found))
        })
        .await
    }

    async fn delete_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        audit: &AuditEntry,
    ) -> Result<bool, StoreError> {
        let (tenant, id, audit) = (tenant.clone(), id.to_owned(), audit.clone());
        self.write(move |tx| {
            let deleted = tx.run(sql::DELETE_ENDPOINT, params![tenant.as_str(), id])? == 1;
            if deleted {
                tx.caches.subscriptions.take();
                tx.deleted.set(true);
                insert_audit(tx, &audit)?;
            }
            Ok(deleted)
        })
        .await
    }

    fn endpoint_propagation(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

fn find(tx: &Tx<'_>, tenant: &TenantId, id: &str) -> rusqlite::Result<Option<Endpoint>> {
    tx.one(sql::ENDPOINT, params![tenant.as_str(), id])
}

fn save(tx: &Tx<'_>, endpoint: &Endpoint) -> rusqlite::Result<()> {
    let former = endpoint.former_secret.as_ref();
    tx.run(
        sql::SAVE_ENDPOINT,
        params![
            endpoint.tenant.as_str(),
            endpoint.id,
            endpoint.url,
            endpoint.description,
            endpoint.events.to_words(),
            endpoint.full,
            endpoint.enabled,
            endpoint.disabled_reason,
            endpoint.sealed_secret,
            former.map(|(secret, _)| secret),
            former.map(|(_, until)| until.as_millis()),
            endpoint.created_at.as_millis(),
            endpoint.changed_at.as_millis(),
        ],
    )?;
    tx.caches.subscriptions.take();
    Ok(())
}
