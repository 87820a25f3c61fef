//! HTTP API.
//!
//! Each module has the handlers of one resource, with their `OpenAPI` descriptions beside them, so that
//! the published document matches the routes.

pub(crate) mod accounts;
pub(crate) mod billing;
pub(crate) mod compat;
mod health;
pub(crate) mod http;
pub(crate) mod jobs;
pub(crate) mod kinds;
mod proxy;
pub(crate) mod queues;
pub(crate) mod replicas;
pub(crate) mod usage;
pub(crate) mod webhooks;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state, map_request_with_state};
use axum::routing::get;
use longhaul::{Clock, Engine};
use longhaul_kinds::chat::Chat;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;
use tower::layer::util::Identity;
use tower::util::option_layer;
use utoipa::OpenApi as _;

use crate::auth::{self, Auth};
use crate::dashboard;
pub use crate::jobs::{CallerUrls, Uploads};
use crate::problem;
use crate::secret::Secret;
#[cfg(feature = "render")]
pub use compat::render::RenderApi;
pub use http::cors::Origins;
use http::load_shedding::Class;
pub use http::load_shedding::LoadShedder;
pub use http::metrics::Metrics;
use http::routes::Routes;
pub use http::site_guard::HostNames;
use http::site_guard::{self, SiteGuard};
pub use http::stream_authorization::StreamAuthorizations;
use http::{cors, load_shedding, metrics, openapi};
pub use proxy::{ProxyRoute, ProxyRoutes};
pub use webhooks::Webhooks;

/// The default of `limits.requests_in_flight_max`.
const REQUESTS_IN_FLIGHT_MAX: usize = 2_048;

/// State shared by all handlers. A clone is one reference, because every request makes several of them.
#[derive(Debug, Clone)]
pub struct AppState(Arc<AppContext>);

/// Contents of [`AppState`].
#[derive(Debug, Clone)]
pub struct AppContext {
    /// Not bound to a tenant. Handlers use the engine of their `Caller` instead.
    pub engine: Engine,
    pub settings: Settings,
    /// Clock for waits and keep-alives.
    pub clock: Clock,
    /// Cancelled when the server stops: waiting requests get a response and event streams end.
    pub stop: CancellationToken,
    pub metrics: Metrics,
    pub auth: Auth,
    /// Secret that signs Stripe's events. Without it, billing is off.
    pub stripe_secret: Option<Secret>,
    pub webhooks: Webhooks,
    /// Chat targets, if any are configured.
    pub chat: Option<Chat>,
    /// Render API, if it is enabled.
    #[cfg(feature = "render")]
    pub render: Option<RenderApi>,
    /// Idempotency keys of uploads in progress.
    pub uploads: Uploads,
    /// Authorizations of open event streams.
    pub streams: StreamAuthorizations,
    pub load_shedder: LoadShedder,
    /// Allowed CORS origins.
    pub origins: Origins,
    /// Host names that a server without keys accepts besides loopback names.
    pub hosts: HostNames,
    pub proxies: ProxyRoutes,
    /// Kinds whose input may contain a URL.
    pub caller_urls: CallerUrls,
}

/// Settings of the HTTP API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Reject submissions without an `Idempotency-Key`. Defaults to `false`.
    pub require_idempotency_key: bool,
    /// Longest wait of a synchronous request. Defaults to 1 min.
    pub sync_wait_max: Duration,
    /// Cancel a chat without an idempotency key when its caller disconnects. Defaults to `true`.
    pub cancel_disconnected_chats: bool,
    /// Time for which a chat without an idempotency key waits for an unreachable target. Defaults to 2 min.
    pub chat_unreachable_wait: Duration,
    /// Keep-alive interval of event streams. Defaults to 15 s.
    pub keep_alive: Duration,
    /// Reconnect delay that event streams announce to clients. Defaults to 2 s.
    pub reconnect: Duration,
    /// Most jobs in one page of a list. Defaults to 1,000.
    pub list_limit_max: usize,
    /// Most jobs in one batch. Defaults to 1,000.
    pub batch_jobs_max: usize,
    /// Largest body of a batch. Defaults to 32 MiB.
    pub batch_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            require_idempotency_key: false,
            sync_wait_max: Duration::from_mins(1),
            cancel_disconnected_chats: true,
            chat_unreachable_wait: Duration::from_mins(2),
            keep_alive: Duration::from_secs(15),
            reconnect: Duration::from_secs(2),
            list_limit_max: 1_000,
            batch_jobs_max: 1_000,
            batch_bytes_max: 32 * 1024 * 1024,
        }
    }
}

impl AppState {
    /// Creates the state with default settings.
    pub fn new(engine: Engine, auth: Auth, webhooks: Webhooks) -> Self {
        let clock = Clock::system();
        Self::from(AppContext {
            engine,
            auth,
            webhooks,
            chat: None,
            #[cfg(feature = "render")]
            render: None,
            stripe_secret: None,
            settings: Settings::default(),
            load_shedder: LoadShedder::new(REQUESTS_IN_FLIGHT_MAX, clock.clone()),
            origins: Origins::new(),
            hosts: HostNames::new(),
            proxies: ProxyRoutes::default(),
            caller_urls: CallerUrls::default(),
            clock,
            stop: CancellationToken::new(),
            metrics: Metrics::installed(),
            uploads: Uploads::default(),
            streams: StreamAuthorizations::default(),
        })
    }
}

impl From<AppContext> for AppState {
    fn from(context: AppContext) -> Self {
        Self(Arc::new(context))
    }
}

impl Deref for AppState {
    type Target = AppContext;

    fn deref(&self) -> &AppContext {
        &self.0
    }
}

/// Changes this clone only, for tests that start a server with another setting.
impl DerefMut for AppState {
    fn deref_mut(&mut self) -> &mut AppContext {
        Arc::make_mut(&mut self.0)
    }
}

/// Returns the router of a server, ready to be served or called in process.
pub fn router(state: AppState) -> Router {
    let document = openapi_document();
    let authenticate = from_fn_with_state(state.auth.clone(), auth::authenticate);
    let shed = from_fn_with_state((state.load_shedder.clone(), Class::Normal), load_shedding::shed);
    let pages = dashboard::router(&state)
        .merge(openapi::router(&document))
        .merge(openapi::docs_page::router(&document));
    let router = guarded()
        .into_router(&state, authenticate)
        .merge(open().into_router(&state, Identity::new()))
        .merge(pages.layer(shed))
        .merge(compat::chat::router(&state))
        .merge(compat::router(&state));
    #[cfg(feature = "render")]
    let router = router.merge(compat::render::router(&state));
    let site_guard =
        SiteGuard::new(&state).map(|rules| map_request_with_state(rules, site_guard::guard));
    let layers = (option_layer(site_guard), option_layer(cors::layer(&state.origins)));
    let router =
        router.merge(proxy::router(&state)).layer(from_fn(metrics::measure)).with_state(state);
    problem::with_layers(layers.layer(router))
}

/// Returns the router of a process that only runs workers: health checks and metrics.
pub fn probes(state: AppState) -> Router {
    let router = Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::show))
        .with_state(state);
    problem::with_layers(router)
}

/// Returns the `OpenAPI` 3.1 document of the routes that [`router`] serves.
pub fn openapi_document() -> utoipa::openapi::OpenApi {
    let mut document = guarded().into_document(openapi::Document::openapi());
    openapi::guard(&mut document);
    document = open().into_document(document);
    openapi::complete(&mut document);
    document
}

/// Routes that authenticate their callers.
fn guarded() -> Routes {
    jobs::router()
        .merge(kinds::router())
        .merge(queues::router())
        .merge(replicas::router())
        .merge(usage::router())
        .merge(accounts::router())
        .merge(webhooks::router())
        .merge(metrics::router())
}

/// Routes without authentication: health checks, and billing events, which are signed.
fn open() -> Routes {
    health::router().merge(billing::router())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_declare_their_class_and_permission() {
        insta::assert_snapshot!(guarded().merge(open()).table());
    }
}
