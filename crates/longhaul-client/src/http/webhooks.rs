//! Webhook endpoints and deliveries.

use reqwest::Method;

use super::call::{Call, Repeat, add};
use super::{Client, ClientError};
use crate::wire::{
    BulkResult, Delivery, DeliveryList, Endpoint, EndpointList, EndpointPatch, EndpointRequest,
    NewEndpoint, ResendRequest, RotateRequest, Status, WebhookSecret,
};

impl Client {
    /// Creates an endpoint. Only this response contains its secret.
    pub async fn create_endpoint(
        &self,
        request: &EndpointRequest,
    ) -> Result<NewEndpoint, ClientError> {
        let url = self.url(&["v1", "endpoints"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(request)?).await
    }

    /// Lists the tenant's endpoints by id, after `cursor`.
    pub async fn endpoints(&self, cursor: Option<&str>) -> Result<EndpointList, ClientError> {
        let mut url = self.url(&["v1", "endpoints"])?;
        add(&mut url, &[("cursor", cursor)]);
        self.json(Call::get(url)).await
    }

    /// Returns an endpoint.
    pub async fn endpoint(&self, id: &str) -> Result<Endpoint, ClientError> {
        self.json(Call::get(self.url(&["v1", "endpoints", id])?)).await
    }

    /// Changes an endpoint.
    pub async fn change_endpoint(
        &self,
        id: &str,
        patch: &EndpointPatch,
    ) -> Result<Endpoint, ClientError> {
        let url = self.url(&["v1", "endpoints", id])?;
        self.json(Call::new(Method::PATCH, url, Repeat::Safe).body(patch)?).await
    }

    /// Deletes an endpoint.
    pub async fn delete_endpoint(&self, id: &str) -> Result<(), ClientError> {
        let url = self.url(&["v1", "endpoints", id])?;
        self.done(Call::new(Method::DELETE, url, Repeat::Safe)).await
    }

    /// Replaces the secret of an endpoint; the former one stays valid for a while.
    pub async fn rotate_endpoint(
        &self,
        id: &str,
        request: &RotateRequest,
    ) -> Result<NewEndpoint, ClientError> {
        let url = self.url(&["v1", "endpoints", id, "rotate"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(request)?).await
    }

    /// Sends a test event to an endpoint.
    pub async fn try_endpoint(&self, id: &str) -> Result<Delivery, ClientError> {
        let url = self.url(&["v1", "endpoints", id, "test"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never)).await
    }

    /// Returns the tenant's secret, for webhooks of jobs that were submitted without one.
    pub async fn webhook_secret(&self) -> Result<WebhookSecret, ClientError> {
        self.json(Call::get(self.url(&["v1", "webhooks", "secret"])?)).await
    }

    /// Lists deliveries, newest first, with a status, to an endpoint, or all, before `cursor`.
    pub async fn deliveries(
        &self,
        status: Option<Status>,
        endpoint: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<DeliveryList, ClientError> {
        let mut url = self.url(&["v1", "deliveries"])?;
        let status = status.map(|status| status.to_string());
        add(&mut url, &[("status", status.as_deref()), ("endpoint", endpoint), ("cursor", cursor)]);
        self.json(Call::get(url)).await
    }

    /// Lists the deliveries of a job, newest first, before `cursor`.
    pub async fn job_deliveries(
        &self,
        job: &str,
        cursor: Option<&str>,
    ) -> Result<DeliveryList, ClientError> {
        let mut url = self.url(&["v1", "jobs", job, "deliveries"])?;
        add(&mut url, &[("cursor", cursor)]);
        self.json(Call::get(url)).await
    }

    /// Returns a delivery with its attempts.
    pub async fn delivery(&self, id: &str) -> Result<Delivery, ClientError> {
        self.json(Call::get(self.url(&["v1", "deliveries", id])?)).await
    }

    /// Resends a delivery.
    pub async fn resend(&self, id: &str) -> Result<Delivery, ClientError> {
        let url = self.url(&["v1", "deliveries", id, "resend"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never)).await
    }

    /// Resends all matching dead letters.
    pub async fn resend_all(&self, request: &ResendRequest) -> Result<BulkResult, ClientError> {
        let url = self.url(&["v1", "deliveries", "resend"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(request)?).await
    }
}
