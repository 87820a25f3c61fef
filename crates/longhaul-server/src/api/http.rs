//! HTTP plumbing shared by the resources: bodies, parameters, callers, load shedding, `OpenAPI`.

pub(crate) mod body;
pub(crate) mod caller;
pub(crate) mod cors;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub(crate) mod idempotency;
pub(crate) mod load_shedding;
pub(crate) mod metrics;
pub(crate) mod multipart;
pub(crate) mod openapi;
pub(crate) mod paging;
pub(crate) mod params;
pub(crate) mod prefer;
pub(crate) mod respond;
pub(crate) mod routes;
mod shared_service;
pub(crate) mod site_guard;
pub(crate) mod stream_authorization;
