//! Webhook endpoints.

use std::time::Duration;

use async_trait::async_trait;

use super::audit::commit_with_audit;
use crate::job::{EventFilter, TenantId};
use crate::store::StoreError;
use crate::store::accounts::AuditEntry;
use crate::store::endpoints::{Endpoint, EndpointChange, Endpoints};
use crate::store::postgres::connection::columns::{Columns, limit, unreadable, without_nul};
use crate::store::postgres::connection::error::{PgError, RetryState};
use crate::store::postgres::connection::params::Param;
use crate::store::postgres::outbox::CACHE_TTL;
use crate::store::postgres::{Inner, PostgresStore, sql};

impl Inner {
    async fn try_save_endpoint(
        &self,
        endpoint: &Endpoint,
        audit: &AuditEntry,
    ) -> Result<(), PgError> {
        let connection = self.database.connection().await?;
        let row = EndpointRow::of(endpoint);
        let (transaction, _) = connection.begin((sql::SAVE_ENDPOINT, &row.params()), None).await?;
        commit_with_audit(transaction, audit).await?;
        self.subscriptions.clear();
        Ok(())
    }

    async fn try_change_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EndpointChange,
        audit: &AuditEntry,
    ) -> Result<Option<Endpoint>, PgError> {
        let connection = self.database.connection().await?;
        let key: &[&dyn Param] = &[&tenant.as_str(), &id];
        let (transaction, rows) = connection.begin((sql::LOCK_ENDPOINT, key), None).await?;
        let Some(row) = rows.first() else {
            transaction.roll_back().await?;
            return Ok(None);
        };
        let mut endpoint = read(row)?;
        endpoint.change(change, self.clock.now());
        transaction.query(sql::SAVE_ENDPOINT, &EndpointRow::of(&endpoint).params()).await?;
        commit_with_audit(transaction, audit).await?;
        self.subscriptions.clear();
        Ok(Some(endpoint))
    }

    async fn try_delete_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        audit: &AuditEntry,
    ) -> Result<bool, PgError> {
        let connection = self.database.connection().await?;
        let key: &[&dyn Param] = &[&tenant.as_str(), &id];
        let (transaction, rows) = connection.begin((sql::DELETE_ENDPOINT, key), None).await?;
        if rows.is_empty() {
            transaction.roll_back().await?;
            return Ok(false);
        }
        commit_with_audit(transaction, audit).await?;
        self.subscriptions.clear();
        Ok(true)
    }
}

#[async_trait]
impl Endpoints for PostgresStore {
    async fn create_endpoint(
        &self,
        endpoint: &Endpoint,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        retrying!(self.inner.try_save_endpoint(endpoint, audit))
    }

    async fn endpoint(&self, tenant: &TenantId, id: &str) -> Result<Option<Endpoint>, StoreError> {
        let id = without_nul(id);
        let id = &*id;
        let params: &[&dyn Param] = &[&tenant.as_str(), &id];
        let found: Result<Vec<Endpoint>, StoreError> =
            retrying!(self.inner.read_all_of(tenant, sql::ENDPOINT, params, read));
        Ok(found?.pop())
    }

    async fn endpoints(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<Endpoint>, StoreError> {
        let after = without_nul(after.unwrap_or_default());
        let after = &*after;
        let params: &[&dyn Param] = &[&tenant.as_str(), &after, &limit(count)];
        retrying!(self.inner.read_all_of(tenant, sql::ENDPOINTS, params, read))
    }

    async fn change_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EndpointChange,
        audit: &AuditEntry,
    ) -> Result<Option<Endpoint>, StoreError> {
        let id = without_nul(id);
        retrying!(self.inner.try_change_endpoint(tenant, &id, change, audit))
    }

    async fn delete_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        audit: &AuditEntry,
    ) -> Result<bool, StoreError> {
        let id = without_nul(id);
        let mut retries = RetryState::default();
        let mut is_retry = false;
        loop {
            match self.inner.try_delete_endpoint(tenant, &id, audit).await {
                // An earlier attempt whose response was lost may have deleted it.
                Ok(deleted) => return Ok(deleted || is_retry),
                Err(error) => retries.again(error).await?,
            }
            is_retry = true;
        }
    }

    fn endpoint_propagation(&self) -> Duration {
        CACHE_TTL
    }
}

struct EndpointRow {
    texts: [String; 6],
    flags: [bool; 2],
    disabled_reason: Option<String>,
    former_secret: Option<String>,
    former_until: Option<i64>,
    ats: [i64; 2],
}

impl EndpointRow {
    fn of(endpoint: &Endpoint) -> Self {
        let text = |text: &str| without_nul(text).into_owned();
        let former = endpoint.former_secret.as_ref();
        Self {
            texts: [
                text(endpoint.tenant.as_str()),
                text(&endpoint.id),
                text(&endpoint.url),
                text(&endpoint.description),
                endpoint.events.to_words(),
                text(&endpoint.sealed_secret),
            ],
            flags: [endpoint.full, endpoint.enabled],
            disabled_reason: endpoint.disabled_reason.as_deref().map(text),
            former_secret: former.map(|(secret, _)| text(secret)),
            former_until: former.map(|(_, until)| until.as_millis()),
            ats: [endpoint.created_at.as_millis(), endpoint.changed_at.as_millis()],
        }
    }

    fn params(&self) -> [&dyn Param; 13] {
        let [tenant, id, url, description, events, secret] = &self.texts;
        let ([full, enabled], [created_at, changed_at]) = (&self.flags, &self.ats);
        [
            tenant,
            id,
            url,
            description,
            events,
            full,
            enabled,
            &self.disabled_reason,
            secret,
            &self.former_secret,
            &self.former_until,
            created_at,
            changed_at,
        ]
    }
}

fn events(words: &str) -> Option<EventFilter> {
    EventFilter::from_words(words).ok()
}

/// Reads a row of `endpoint.sql`.
fn read(row: &tokio_postgres::Row) -> Result<Endpoint, PgError> {
    let mut columns = Columns::of(row);
    Ok(Endpoint {
        tenant: columns.text(TenantId::stored)?,
        id: columns.get()?,
        url: columns.get()?,
        description: columns.get()?,
        events: columns.text(events)?,
        full: columns.get()?,
        enabled: columns.get()?,
        disabled_reason: columns.get()?,
        sealed_secret: columns.get()?,
        former_secret: match (columns.get::<Option<String>>()?, columns.opt_at()?) {
            (Some(secret), Some(until)) => Some((secret, until)),
            (None, None) => None,
            _ => return Err(unreadable("a former secret without an expiry")),
        },
        created_at: columns.at()?,
        changed_at: columns.at()?,
    })
}
