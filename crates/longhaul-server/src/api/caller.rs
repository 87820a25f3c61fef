//! For whom a request acts.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use longhaul::{Engine, TenantId};

use super::AppState;

/// Whoever sent the request. The one place that decides on the tenant: handlers have no other way
/// to the engine, so none of them can forget to ask.
#[derive(Debug)]
pub(super) struct Caller {
    /// The engine, bound to the caller's tenant.
    pub(super) engine: Engine,
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, state: &AppState) -> Result<Self, Infallible> {
        // Nobody has a key yet: everybody is the tenant of those who have only one.
        let engine = state.engine.for_tenant(TenantId::default());
        Ok(Self { engine })
    }
}
