//! Pages for people: what happens, and what can be done about it.
//!
//! A page shows what the public API tells, read by the same functions and with the caller's own rights,
//! and its buttons do what the API's operations do. Pages are written here, whole: they can be read
//! without the script, which keeps them fresh and adds keys.

mod assets;
mod audit;
mod charts;
mod form;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod guard;
mod job;
mod jobs;
mod keys;
pub(crate) mod layout;
mod overview;
mod parts;
mod refusal;
mod session;
mod sign_in;
mod submit;
mod tenants;
mod usage;
mod view;
mod viewer;
mod webhooks;

use axum::routing::{get, post};
use axum::{Router, middleware};

use crate::api::AppState;
use crate::problem::{Code, Problem};

/// All pages, with what every request to them goes through.
pub(crate) fn router(state: &AppState) -> Router<AppState> {
    let pages = Router::new()
        .route("/", get(overview::show))
        .route("/ui/queues/{name}/pause", post(overview::pause))
        .route("/ui/queues/{name}/resume", post(overview::resume))
        .route("/ui/jobs", get(jobs::list))
        .route("/ui/jobs/bulk/{action}", post(jobs::bulk))
        .merge(job::router())
        .merge(submit::router())
        .merge(webhooks::router())
        .merge(keys::router())
        .merge(tenants::router())
        .route("/ui/usage", get(usage::show))
        .route("/ui/audit", get(audit::show))
        .route("/ui/sign-out", post(sign_in::sign_out))
        .route("/ui/{*nowhere}", get(nowhere))
        .route_layer(middleware::from_fn_with_state(state.auth.clone(), session::admit));
    let open = Router::new()
        .route("/ui", get(async || axum::response::Redirect::to("/")))
        .route("/ui/sign-in", get(sign_in::show).post(sign_in::sign_in));
    pages
        .merge(open)
        .route_layer(middleware::from_fn(guard::refuse_other_sites))
        .route_layer(middleware::from_fn_with_state(state.auth.clone(), refusal::as_pages))
        .merge(assets::router())
}

async fn nowhere() -> Problem {
    Problem::new(Code::NotFound, "there is no page at this address")
}
