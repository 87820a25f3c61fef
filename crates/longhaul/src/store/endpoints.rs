//! Webhook endpoints of tenants.
//!
//! A store writes deliveries to the endpoints in the transaction that records an event: see `outbox`.

use async_trait::async_trait;

use super::StoreError;
use super::accounts::AuditEntry;
use crate::job::{EventFilter, TenantId, Timestamp};

/// A webhook endpoint that receives events of a tenant's jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Tenant that owns it.
    pub tenant: TenantId,
    /// Endpoint id.
    pub id: String,
    /// URL that deliveries are posted to.
    pub url: String,
    /// Description for operators.
    pub description: String,
    /// Events that it receives.
    pub events: EventFilter,
    /// If true, results are sent regardless of their size.
    pub full: bool,
    /// If false, no deliveries are created for it.
    pub enabled: bool,
    /// Reason, if the server disabled it.
    pub disabled_reason: Option<String>,
    /// Signing secret, encrypted with the server key.
    pub sealed_secret: String,
    /// Previous signing secret and the time until which deliveries are also signed with it.
    pub former_secret: Option<(String, Timestamp)>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub changed_at: Timestamp,
}

/// A change to an endpoint. Fields that are `None` do not change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointChange {
    /// URL that deliveries are posted to.
    pub url: Option<String>,
    /// Description for operators.
    pub description: Option<String>,
    /// Events that it receives.
    pub events: Option<EventFilter>,
    /// If true, results are sent regardless of their size.
    pub full: Option<bool>,
    /// New enabled state, with a reason if the server sets it.
    pub enabled: Option<(bool, Option<String>)>,
    /// New encrypted secret, and the time until which the previous one is also used.
    pub secret: Option<(String, Timestamp)>,
}

impl Endpoint {
    /// Applies a change.
    pub(crate) fn change(&mut self, change: &EndpointChange, now: Timestamp) {
        if let Some(url) = &change.url {
            self.url.clone_from(url);
        }
        if let Some(description) = &change.description {
            self.description.clone_from(description);
        }
        if let Some(events) = &change.events {
            self.events.clone_from(events);
        }
        self.full = change.full.unwrap_or(self.full);
        if let Some((enabled, reason)) = &change.enabled {
            self.enabled = *enabled;
            self.disabled_reason = reason.clone().filter(|_| !enabled);
        }
        // A repeated call, whose first response was lost, must not make the new secret the previous one.
        if let Some((secret, until)) = &change.secret
            && *secret != self.sealed_secret
        {
            let former = std::mem::replace(&mut self.sealed_secret, secret.clone());
            self.former_secret = Some((former, *until));
        }
        self.changed_at = now;
    }
}

/// Storage of webhook endpoints. A call may be repeated when its response was lost.
#[async_trait]
pub trait Endpoints: Send + Sync {
    /// Creates an endpoint.
    async fn create_endpoint(
        &self,
        endpoint: &Endpoint,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;

    /// Returns one of the tenant's endpoints.
    async fn endpoint(&self, tenant: &TenantId, id: &str) -> Result<Option<Endpoint>, StoreError>;

    /// Returns up to `limit` of the tenant's endpoints by id, starting after `after`.
    async fn endpoints(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Endpoint>, StoreError>;

    /// Changes an endpoint. `None` if the tenant has no endpoint with this id.
    async fn change_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EndpointChange,
        audit: &AuditEntry,
    ) -> Result<Option<Endpoint>, StoreError>;

    /// Deletes an endpoint. `false` if the tenant has no endpoint with this id.
    async fn delete_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        audit: &AuditEntry,
    ) -> Result<bool, StoreError>;

    /// Returns the maximum time until a change is effective on every replica that shares the store.
    fn endpoint_propagation(&self) -> std::time::Duration;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_secret_rotation_keeps_the_previous_secret() {
        let at = Timestamp::from_millis;
        let mut endpoint = Endpoint {
            tenant: TenantId::default(),
            id: "ep_1".to_owned(),
            url: "https://example.com".to_owned(),
            description: String::new(),
            events: EventFilter::default(),
            full: false,
            enabled: true,
            disabled_reason: None,
            sealed_secret: "one".to_owned(),
            former_secret: None,
            created_at: at(0),
            changed_at: at(0),
        };
        let rotation =
            EndpointChange { secret: Some(("two".to_owned(), at(9))), ..Default::default() };
        endpoint.change(&rotation, at(1));
        endpoint.change(&rotation, at(2));
        assert_eq!(endpoint.sealed_secret, "two");
        assert_eq!(endpoint.former_secret, Some(("one".to_owned(), at(9))));
    }
}
