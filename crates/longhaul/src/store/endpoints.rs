//! Endpoints: where a tenant wants to be told of what happens to its jobs.
//!
//! Stores tell them in the transaction of what happens: see `announce`. Whoever changes one here
//! changes who is told from then on.

use async_trait::async_trait;

use super::StoreError;
use super::accounts::AuditEntry;
use crate::job::{EventFilter, TenantId, Timestamp};

/// Where a tenant wants to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id.
    pub id: String,
    /// Where deliveries go.
    pub url: String,
    /// For people.
    pub description: String,
    /// What it is told of.
    pub events: EventFilter,
    /// Whether results of any size are sent.
    pub full: bool,
    /// Whether it is told of anything.
    pub enabled: bool,
    /// Why it is not, if nobody switched it off by hand.
    pub disabled_reason: Option<String>,
    /// What deliveries are signed with, sealed with the server's key.
    pub sealed_secret: String,
    /// What they were signed with before, and until when they are signed with that too.
    pub former_secret: Option<(String, Timestamp)>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub changed_at: Timestamp,
}

/// A change of an endpoint. What is None stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointChange {
    /// Where deliveries go.
    pub url: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// What it is told of.
    pub events: Option<EventFilter>,
    /// Whether results of any size are sent.
    pub full: Option<bool>,
    /// Switches it on or off, and why if nobody did so by hand.
    pub enabled: Option<(bool, Option<String>)>,
    /// Another sealed secret, and until when the former one is used too.
    pub secret: Option<(String, Timestamp)>,
}

impl Endpoint {
    /// Makes a change.
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
        // A repeated change, whose answer was lost, must not make the new secret the former one.
        if let Some((secret, until)) = &change.secret
            && *secret != self.sealed_secret
        {
            let former = std::mem::replace(&mut self.sealed_secret, secret.clone());
            self.former_secret = Some((former, *until));
        }
        self.changed_at = now;
    }
}

/// Keeps endpoints. Each call may be repeated when its answer was lost.
#[async_trait]
pub trait Endpoints: Send + Sync {
    /// Makes an endpoint.
    async fn create_endpoint(
        &self,
        endpoint: &Endpoint,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;

    /// One of the tenant's endpoints.
    async fn endpoint(&self, tenant: &TenantId, id: &str) -> Result<Option<Endpoint>, StoreError>;

    /// Up to `limit` of the tenant's endpoints by id, those after `after`.
    async fn endpoints(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Endpoint>, StoreError>;

    /// Changes an endpoint. None if the tenant has none of that id.
    async fn change_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        change: &EndpointChange,
        audit: &AuditEntry,
    ) -> Result<Option<Endpoint>, StoreError>;

    /// Deletes an endpoint. False if the tenant has none of that id.
    async fn delete_endpoint(
        &self,
        tenant: &TenantId,
        id: &str,
        audit: &AuditEntry,
    ) -> Result<bool, StoreError>;

    /// How long it takes at most until every process that shares the store tells endpoints as they are now.
    fn endpoint_propagation(&self) -> std::time::Duration;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_that_is_repeated_keeps_the_former_secret() {
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
