//! Gateway: configured paths that forward requests to an upstream through jobs of an `http` kind.
//!
//! Each request is submitted as a job. The response is the job, or exactly the upstream's response.

mod browser_isolation;
mod forwarded_request;
mod response;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Extension, Request, State};
use axum::http::HeaderName;
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::any;
use longhaul::blob::Keyring;
use longhaul::job::JsonError;
use longhaul::{JobHandle, Submission, SubmitError};
use longhaul_kinds::http::{HeaderField, HttpCall, seal_body, seal_headers};
use sha2::{Digest, Sha256};

use super::AppState;
use super::http::idempotency;
use super::http::prefer::Preference;
use crate::api::http::body;
use crate::api::http::caller::{Caller, Submit};
use crate::api::http::load_shedding::Class;
use crate::api::http::respond;
use crate::api::http::routes::Routes;
use crate::auth::{self, PresentedCredential};
use crate::encoding;
use crate::jobs::submit::{self, IncomingPayload, with_key};
use crate::jobs::upload::{PayloadHeaders, chunks};
use crate::jobs::wait;
use crate::problem::Result;
use crate::to_wire;
use forwarded_request::ForwardedRequest;

/// Largest body that becomes part of the job's input, sealed. A separate payload blob would cost more than the rest of
/// the request.
const SMALL_BODY_BYTES_MAX: usize = 16 << 10;

/// A path prefix and the kind that handles its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyRoute {
    /// Begins with a slash and does not end with one.
    pub path: String,
    /// An `http` kind.
    pub kind: String,
    /// Wait for the upstream's response by default.
    pub sync: bool,
    /// Headers that are forwarded sealed. `Authorization` and `Cookie` are forwarded only if they are listed here.
    pub pass: Vec<HeaderName>,
}

/// All gateway routes. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ProxyRoutes {
    routes: Arc<[Arc<ProxyRoute>]>,
    keyring: Option<Arc<Keyring>>,
}

impl ProxyRoutes {
    /// Creates the routes; `keyring` seals the secrets that they forward.
    pub fn new(routes: Vec<ProxyRoute>, keyring: Arc<Keyring>) -> Self {
        Self { routes: routes.into_iter().map(Arc::new).collect(), keyring: Some(keyring) }
    }

    /// Returns the kind that handles requests to this path, if a route does.
    pub(crate) fn kind_at(&self, path: &str) -> Option<&str> {
        let covers = |route: &&Arc<ProxyRoute>| {
            let below = path.strip_prefix(route.path.as_str());
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        let route = self.routes.iter().filter(covers).max_by_key(|route| route.path.len());
        route.map(|route| route.kind.as_str())
    }
}

pub(super) fn router(state: &AppState) -> Router<AppState> {
    let mut routes = Routes::new();
    for route in state.proxies.routes.iter() {
        let path = route.path.as_str();
        for path in [path.to_owned(), format!("{path}/"), format!("{path}/{{*below}}")] {
            let handler = any(forward).layer(Extension(Arc::clone(route)));
            routes = routes.any_method::<Submit>(Class::Submission, &path, handler);
        }
    }
    let authenticate = from_fn_with_state(state.auth.clone(), auth::authenticate_proxied);
    let isolation = browser_isolation::Isolation::new(state);
    let isolate = from_fn_with_state(isolation, browser_isolation::isolate);
    routes.into_router(state, (isolate, authenticate))
}

async fn forward(
    State(state): State<AppState>,
    Extension(route): Extension<Arc<ProxyRoute>>,
    Extension(PresentedCredential(credential)): Extension<PresentedCredential>,
    caller: Caller<Submit>,
    request: Request,
) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let forwarded = ForwardedRequest::parse(&route, &parts, &state.auth)?;
    let sync = forwarded.sync.unwrap_or(route.sync);
    let preference = Preference::of(&parts.headers, sync, state.settings.sync_wait_max);
    let handle = submit(&state, &caller, &route, &parts, forwarded, body).await?;
    let authorization = caller.authorization_with(credential);
    let record = wait::for_finish(&state, &handle, &authorization, preference.wait).await?;
    let response = if !preference.wait.is_zero() && record.job.status.is_terminal() {
        response::from_upstream(&caller.engine, &record).await?
    } else {
        respond::accepted(&to_wire::job(&caller.engine, &record)?)
    };
    Ok(preference.applied_to(response))
}

async fn submit(
    state: &AppState,
    caller: &Caller<Submit>,
    route: &ProxyRoute,
    parts: &Parts,
    forwarded: ForwardedRequest,
    body: Body,
) -> Result<JobHandle> {
    let key = idempotency::key(&parts.headers, state.settings.require_idempotency_key)?;
    let ForwardedRequest { call, secret, .. } = forwarded;
    let submission = |call: HttpCall, body: Option<Bytes>| {
        with_key(submission(state, caller, route, call, secret, body), key.clone())
    };
    if body.is_end_stream() {
        return submit::submit(state, submission(call, None)).await;
    }
    let headers = PayloadHeaders::parse(&parts.headers, &body)?;
    let mut body = body;
    if headers.may_be_small(SMALL_BODY_BYTES_MAX) {
        body = match body::small(body, SMALL_BODY_BYTES_MAX).await? {
            Ok(whole) => return submit::submit(state, submission(call, Some(whole))).await,
            Err(larger) => larger,
        };
    }
    let incoming = IncomingPayload { headers, name: None, key: key.clone() };
    let input = call.to_input().map_err(SubmitError::from)?;
    let submission = || Ok(submission(call, None));
    incoming.submit(state, caller, &route.kind, &input, chunks(body), submission).await
}

/// Builds the submission, with secret headers and the body sealed for this job.
fn submission(
    state: &AppState,
    caller: &Caller<Submit>,
    route: &ProxyRoute,
    mut call: HttpCall,
    secret: Vec<HeaderField>,
    body: Option<Bytes>,
) -> Submission {
    let (keyring, tenant) = (state.proxies.keyring.clone(), caller.engine.tenant().clone());
    caller.engine.submit_with(&route.kind, move |id| {
        if let (Some(keyring), false) = (&keyring, secret.is_empty()) {
            let sealed = seal_headers(keyring, &secret, &tenant, id);
            call.sealed = Some(sealed.map_err(JsonError::from)?);
        }
        if let (Some(keyring), Some(body)) = (&keyring, body) {
            call.sealed_body = Some(seal_body(keyring, &body, &tenant, id));
            call.body_digest = Some(encoding::hex(&Sha256::digest(&body)));
        }
        call.to_input()
    })
}
