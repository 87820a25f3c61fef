//! Webhook dispatcher: sends the deliveries in the outbox.
//!
//! The store creates deliveries in the transaction that records an event. Each delivery is a job of the engine, which
//! provides leases, attempts and resending.

mod delivery;
mod endpoint_limits;
mod event_body;
mod ordering;
mod retry_schedule;
mod secrets;
pub mod signature;
mod state_events;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use longhaul::job::{DELIVERY_KIND, Name};
use longhaul::store::QueueCapacity;
use longhaul::store::endpoints::Endpoints;
use longhaul::{Clock, Kind};

pub use delivery::DeliveryAttempt;
pub use retry_schedule::RetrySchedule;
pub use secrets::Secrets;

use endpoint_limits::EndpointLimiter;
use longhaul_net::egress;
use ordering::DeliveryOrder;

/// Settings of webhook deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Delay before the second attempt; later delays grow from it. Defaults to 5 s.
    pub first_retry: Duration,
    /// Timeout of one attempt. Defaults to 15 s.
    pub timeout: Duration,
    /// Concurrent deliveries of this process. Defaults to 1,024.
    pub concurrency: usize,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            first_retry: Duration::from_secs(5),
            timeout: Duration::from_secs(15),
            concurrency: 1_024,
        }
    }
}

/// Sends webhook deliveries. Clones share everything.
#[derive(Clone)]
pub struct WebhookDispatcher(Arc<Inner>);

struct Inner {
    endpoints: Arc<dyn Endpoints>,
    secrets: Secrets,
    client: egress::Client,
    schedule: RetrySchedule,
    timeout: Duration,
    clock: Clock,
    endpoint_limits: EndpointLimiter,
    order: DeliveryOrder,
}

impl WebhookDispatcher {
    pub fn new(
        endpoints: Arc<dyn Endpoints>,
        secrets: Secrets,
        client: egress::Client,
        clock: Clock,
        settings: WebhookSettings,
    ) -> Self {
        Self(Arc::new(Inner {
            endpoints,
            secrets,
            client,
            schedule: RetrySchedule::new(settings.first_retry),
            timeout: settings.timeout,
            clock,
            endpoint_limits: EndpointLimiter::new(settings.concurrency),
            order: DeliveryOrder::default(),
        }))
    }

    /// Returns the kind that runs deliveries in the engine.
    pub fn kind(&self) -> Kind {
        let dispatcher = self.clone();
        // A safety net: each attempt has its own timeout.
        let timeout = self.0.timeout * 2 + Duration::from_mins(1);
        Kind::new(DELIVERY_KIND, move |ctx, delivery| {
            let dispatcher = dispatcher.clone();
            async move { dispatcher.deliver(ctx, delivery).await }
        })
        .timeout(timeout)
    }

    /// Returns a function that computes each endpoint's window: the deliveries to claim at once.
    pub fn windows(
        &self,
    ) -> impl Fn(&HashMap<Name, usize>) -> QueueCapacity + Send + Sync + 'static {
        let inner = Arc::clone(&self.0);
        move |in_flight| inner.endpoint_limits.windows(in_flight, inner.clock.now())
    }
}

impl fmt::Debug for WebhookDispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookDispatcher").finish_non_exhaustive()
    }
}
