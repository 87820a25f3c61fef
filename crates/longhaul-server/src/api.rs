//! The HTTP API: from the wire to the engine and back.
//!
//! Each module has the handlers of one part of the contract, with their description in `OpenAPI`
//! beside them; `openapi` makes one document of it, so that what is published is what is served.

pub(crate) mod accounts;
pub(crate) mod answer;
pub(crate) mod billing;
pub(crate) mod body;
pub(crate) mod caller;
mod caller_urls;
pub(crate) mod chat;
mod cors;
mod docs;
mod doors;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod health;
pub(crate) mod jobs;
pub(crate) mod kinds;
pub mod metrics;
mod openapi;
pub(crate) mod overload;
pub(crate) mod params;
mod proxy;
pub(crate) mod queues;
#[cfg(feature = "render")]
mod render;
pub(crate) mod replicas;
pub(crate) mod usage;
pub(crate) mod webhooks;

use std::time::Duration;

use axum::Router;
use axum::middleware;
use axum::routing::get;
use longhaul::{Clock, Engine};
use longhaul_kinds::chat::Chat;
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

use crate::auth::{self, Auth};
use crate::dashboard;
use crate::problem;
use crate::secret::Secret;
pub(crate) use answer::shown_job;
pub use caller_urls::CallerUrls;
pub use cors::Origins;
pub use jobs::Uploads;
use metrics::Metrics;
pub use overload::Overload;
pub use proxy::{ProxyRoute, ProxyRoutes};
#[cfg(feature = "render")]
pub use render::RenderDoor;
pub use webhooks::Hooks;

/// The default of `limits.requests_in_flight_max`.
const REQUESTS_IN_FLIGHT_MAX: usize = 2_048;

/// What every handler may use.
#[derive(Debug, Clone)]
pub struct AppState {
    /// Where jobs go and come from. Handlers reach it through `Caller` only.
    pub engine: Engine,
    /// What the configuration says about answering.
    pub settings: Settings,
    /// What held requests and keep-alives wait on.
    pub clock: Clock,
    /// Cancelled when the server stops: held requests are answered and event streams end.
    pub stop: CancellationToken,
    /// What `/metrics` shows.
    pub metrics: Metrics,
    /// Who callers are and what they may do.
    pub auth: Auth,
    /// What the payment provider signs its events with.
    pub stripe_secret: Option<Secret>,
    /// Endpoints and what judges and signs deliveries.
    pub hooks: Hooks,
    /// Language models to call, if there are any.
    pub chat: Option<Chat>,
    /// What diagrams go by, if there are any.
    #[cfg(feature = "render")]
    pub render: Option<RenderDoor>,
    /// Keys whose first uploads are still coming in.
    pub uploads: Uploads,
    /// Refuses early what would only wait.
    pub overload: Overload,
    /// Whose pages may call.
    pub origins: Origins,
    /// Paths that lead to kinds.
    pub proxies: ProxyRoutes,
    /// Kinds whose jobs may name a URL.
    pub caller_urls: CallerUrls,
}

/// What the configuration says about answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Refuse submissions without an `Idempotency-Key`.
    pub require_idempotency_key: bool,
    /// For how long a request is held at most.
    pub sync_wait_max: Duration,
    /// How often a silent event stream says that it is alive.
    pub keep_alive: Duration,
    /// After how long a cut event stream is to be opened again.
    pub reconnect: Duration,
    /// Jobs in one page of a list.
    pub list_limit_max: usize,
    /// Jobs in one batch.
    pub batch_jobs_max: usize,
    /// Bytes of a batch's body.
    pub batch_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            require_idempotency_key: false,
            sync_wait_max: Duration::from_mins(1),
            keep_alive: Duration::from_secs(15),
            reconnect: Duration::from_secs(2),
            list_limit_max: 1_000,
            batch_jobs_max: 1_000,
            batch_bytes_max: 32 * 1024 * 1024,
        }
    }
}

impl AppState {
    /// The state for an engine, with default settings.
    pub fn new(engine: Engine, auth: Auth, hooks: Hooks) -> Self {
        let clock = Clock::system();
        Self {
            engine,
            auth,
            hooks,
            chat: None,
            #[cfg(feature = "render")]
            render: None,
            stripe_secret: None,
            settings: Settings::default(),
            overload: Overload::new(REQUESTS_IN_FLIGHT_MAX, clock.clone()),
            origins: Origins::new(),
            proxies: ProxyRoutes::default(),
            caller_urls: CallerUrls::default(),
            clock,
            stop: CancellationToken::new(),
            metrics: Metrics::installed(),
            uploads: Uploads::default(),
        }
    }
}

/// Everything that the server answers, ready to be served or driven in process.
pub fn router(state: AppState) -> Router {
    let document = openapi_document();
    let (guarded, _) = guarded().split_for_parts();
    let (open, _) = open().split_for_parts();
    let admit = middleware::from_fn_with_state(state.auth.clone(), auth::admit);
    let (overload, cors) = (state.overload.clone(), cors::layer(&state.origins));
    let router = guarded.route_layer(admit).merge(dashboard::router(&state));
    #[cfg(feature = "render")]
    let router = router.merge(render::router(&state));
    let router = router
        .merge(chat::router(&state.auth))
        .merge(doors::router(&state.auth))
        .merge(open)
        .merge(openapi::router(&document))
        .merge(docs::router(&document))
        .layer(middleware::from_fn_with_state(overload, overload::shed))
        .merge(proxy::router(&state))
        .layer(middleware::from_fn(metrics::measure))
        .with_state(state);
    problem::dress(match cors {
        Some(cors) => router.layer(cors),
        None => router,
    })
}

/// What a process answers that nobody sends jobs to: whether it is well, and its metrics.
pub fn probes(state: AppState) -> Router {
    let router = Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(metrics::show))
        .with_state(state);
    problem::dress(router)
}

/// The `OpenAPI` 3.1 document of what [`router`] serves.
pub fn openapi_document() -> utoipa::openapi::OpenApi {
    let mut document = guarded().merge(open()).into_openapi();
    openapi::complete(&mut document);
    document
}

/// What asks who calls.
fn guarded() -> OpenApiRouter<AppState> {
    let mut routes = OpenApiRouter::with_openapi(openapi::Document::openapi())
        .merge(jobs::router())
        .merge(kinds::router())
        .merge(queues::router())
        .merge(replicas::router())
        .merge(usage::router())
        .merge(accounts::router())
        .merge(webhooks::router())
        .merge(metrics::router());
    openapi::guard(routes.get_openapi_mut());
    routes
}

/// What anybody may ask.
fn open() -> OpenApiRouter<AppState> {
    health::router().merge(billing::router())
}
