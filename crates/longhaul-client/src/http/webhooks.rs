//! Webhook endpoints and deliveries.

use reqwest::Method;

use super::call::Repeat;
use super::{Client, Result};
use crate::wire::{
    BulkResult, Delivery, DeliveryList, Endpoint, EndpointList, EndpointPatch, EndpointRequest,
    NewEndpoint, ResendRequest, RotateRequest, Status, WebhookSecret,
};

impl Client {
    /// Creates an endpoint. Only this response contains its secret.
    pub async fn create_endpoint(&self, request: &EndpointRequest) -> Result<NewEndpoint> {
        self.post(&["v1", "endpoints"], request).await
    }

    /// Lists the tenant's endpoints by id, after `cursor`.
    pub async fn endpoints(&self, cursor: Option<&str>) -> Result<EndpointList> {
        self.get(&["v1", "endpoints"], &[("cursor", cursor)]).await
    }

    /// Returns an endpoint.
    pub async fn endpoint(&self, id: &str) -> Result<Endpoint> {
        self.get(&["v1", "endpoints", id], &[]).await
    }

    /// Changes an endpoint.
    pub async fn change_endpoint(&self, id: &str, patch: &EndpointPatch) -> Result<Endpoint> {
        let call = self.call(Method::PATCH, &["v1", "endpoints", id], Repeat::Safe)?;
        self.json(call.body(patch)?).await
    }

    /// Deletes an endpoint.
    pub async fn delete_endpoint(&self, id: &str) -> Result<()> {
        self.delete(self.url(&["v1", "endpoints", id])?).await
    }

    /// Replaces the secret of an endpoint; the former one stays valid for a while.
    pub async fn rotate_endpoint(&self, id: &str, request: &RotateRequest) -> Result<NewEndpoint> {
        self.post(&["v1", "endpoints", id, "rotate"], request).await
    }

    /// Sends a test event to an endpoint.
    pub async fn try_endpoint(&self, id: &str) -> Result<Delivery> {
        let path = ["v1", "endpoints", id, "test"];
        self.json(self.call(Method::POST, &path, Repeat::Never)?).await
    }

    /// Returns the tenant's secret, for webhooks of jobs that were submitted without one.
    pub async fn webhook_secret(&self) -> Result<WebhookSecret> {
        self.get(&["v1", "webhooks", "secret"], &[]).await
    }

    /// Lists deliveries, newest first, with a status, to an endpoint, or all, before `cursor`. A page may be empty although
    /// there is a next one.
    pub async fn deliveries(
        &self,
        status: Option<Status>,
        endpoint: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<DeliveryList> {
        let status = status.map(Status::as_str);
        let query = [("status", status), ("endpoint", endpoint), ("cursor", cursor)];
        self.get(&["v1", "deliveries"], &query).await
    }

    /// Lists the deliveries of a job, newest first, before `cursor`.
    pub async fn job_deliveries(&self, job: &str, cursor: Option<&str>) -> Result<DeliveryList> {
        self.get(&["v1", "jobs", job, "deliveries"], &[("cursor", cursor)]).await
    }

    /// Returns a delivery with its attempts.
    pub async fn delivery(&self, id: &str) -> Result<Delivery> {
        self.get(&["v1", "deliveries", id], &[]).await
    }

    /// Resends a delivery.
    pub async fn resend(&self, id: &str) -> Result<Delivery> {
        let path = ["v1", "deliveries", id, "resend"];
        self.json(self.call(Method::POST, &path, Repeat::Never)?).await
    }

    /// Resends all matching dead letters.
    pub async fn resend_all(&self, request: &ResendRequest) -> Result<BulkResult> {
        self.post(&["v1", "deliveries", "resend"], request).await
    }
}
