//! A test server with webhooks that retry by a clock which the test moves.

use std::ops::Deref;
use std::time::Duration;

use longhaul::job::Json;
use longhaul::{Ctx, JobError, Kind, TenantId};
use longhaul_server::webhooks::WebhookSettings;
use serde_json::{Value, json};

use crate::harness::{Backend, TestServer, TestServerBuilder};

/// Deliveries in flight.
pub(super) const DELIVERIES_MAX: usize = 64;

pub(super) struct WebhookServer(TestServer);

impl Deref for WebhookServer {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.0
    }
}

impl WebhookServer {
    pub(super) async fn start(backend: Backend) -> Self {
        Self::with_timeout(backend, Duration::from_mins(5)).await
    }

    /// Starts a server that waits this long for the response of an endpoint.
    pub(super) async fn with_timeout(backend: Backend, timeout: Duration) -> Self {
        Self(builder(backend, timeout).start().await)
    }

    /// Starts a server whose egress policy denies this machine.
    pub(super) async fn without_loopback(backend: Backend) -> Self {
        Self(builder(backend, Duration::from_mins(5)).deny_loopback().start().await)
    }

    /// Submits a job with a webhook of its own.
    pub(super) async fn submit(&self, kind: &str, webhook: Value) -> Value {
        let body = json!({"kind": kind, "input": {"page": 1}, "webhook": webhook});
        let (status, job) = self.post("/v1/jobs").json(body).fetch().await;
        assert_eq!(status, 202, "{job}");
        job
    }

    pub(super) async fn create_endpoint(&self, body: Value) -> Value {
        let (status, endpoint) = self.post("/v1/endpoints").json(body).fetch().await;
        assert_eq!(status, 201, "{endpoint}");
        endpoint
    }

    /// Returns the job's deliveries, oldest first.
    async fn deliveries(&self, job: &Value) -> Vec<Value> {
        let path = format!("/v1/jobs/{}/deliveries", job["jobId"].as_str().unwrap());
        let mut all = self.get_json(&path).await["deliveries"].as_array().unwrap().clone();
        all.reverse();
        all
    }

    pub(super) async fn poll_delivery(&self, id: &str, accept: impl Fn(&Value) -> bool) -> Value {
        self.poll(&format!("/v1/deliveries/{id}"), accept).await
    }

    /// Returns the id of the job's delivery of this event, once it exists.
    pub(super) async fn delivery_of(&self, job: &Value, event: &str) -> String {
        loop {
            let deliveries = self.deliveries(job).await;
            let delivery = deliveries.iter().find(|delivery| delivery["type"] == event);
            if let Some(delivery) = delivery {
                return delivery["deliveryId"].as_str().unwrap().to_owned();
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn tenant_secret(&self) -> String {
        self.state.webhooks.secrets.of_tenant(&TenantId::default()).expose().to_string()
    }
}

fn builder(backend: Backend, timeout: Duration) -> TestServerBuilder {
    let settings =
        WebhookSettings { timeout, concurrency: DELIVERIES_MAX, ..WebhookSettings::default() };
    TestServer::builder()
        .backend(backend)
        .ticking_clock()
        .webhooks(settings)
        .kind(Kind::new("phases", phases))
}

async fn phases(ctx: Ctx, _: Json) -> Result<String, JobError> {
    ctx.phase("loading").await?;
    ctx.phase("drawing").await?;
    Ok("x".repeat(20_000))
}
