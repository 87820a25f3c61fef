//! Webhooks: delivers what is owed to endpoints and to jobs' own webhooks.
//!
//! What is owed is decided where it happens, in the store. Here it is sent: each delivery is a job of the
//! engine, so that leases, attempts and resending are the engine's.

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
use longhaul::store::endpoints::Endpoints;
use longhaul::store::{QueueCapacity, Store};
use longhaul::{Clock, Kind};

pub use delivery::{Arrived, Try};
pub use retry_schedule::Schedule;
pub use secrets::Secrets;

use endpoint_limits::Gates;
use longhaul_net::egress;
use ordering::Order;

/// What the configuration says about deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookSettings {
    /// The delay before the second attempt; the others follow from it.
    pub first_retry: Duration,
    /// For one attempt.
    pub timeout: Duration,
    /// Deliveries at once from this process.
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

/// Delivers. Clones share everything.
#[derive(Clone)]
pub struct WebhookDispatcher(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    endpoints: Arc<dyn Endpoints>,
    secrets: Secrets,
    client: egress::Client,
    schedule: Schedule,
    timeout: Duration,
    clock: Clock,
    gates: Gates,
    order: Order,
}

impl WebhookDispatcher {
    /// A courier that finds what it needs here.
    pub fn new(
        store: Arc<dyn Store>,
        endpoints: Arc<dyn Endpoints>,
        secrets: Secrets,
        client: egress::Client,
        clock: Clock,
        settings: WebhookSettings,
    ) -> Self {
        Self(Arc::new(Inner {
            store,
            endpoints,
            secrets,
            client,
            schedule: Schedule::new(settings.first_retry),
            timeout: settings.timeout,
            clock,
            gates: Gates::new(settings.concurrency),
            order: Order::default(),
        }))
    }

    /// What the engine runs deliveries by.
    pub fn kind(&self) -> Kind {
        let courier = self.clone();
        // Each attempt bounds itself; this is for what nobody thought of.
        let timeout = self.0.timeout * 2 + Duration::from_mins(1);
        Kind::new(DELIVERY_KIND, move |ctx, delivery| {
            let courier = courier.clone();
            async move { courier.deliver(ctx, delivery).await }
        })
        .timeout(timeout)
    }

    /// How many deliveries to each receiver may be under way at once.
    pub fn windows(
        &self,
    ) -> impl Fn(&HashMap<Name, usize>) -> QueueCapacity + Send + Sync + 'static {
        let inner = Arc::clone(&self.0);
        move |under_way| inner.gates.windows(under_way, inner.clock.now())
    }
}

impl fmt::Debug for WebhookDispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookDispatcher").finish_non_exhaustive()
    }
}
