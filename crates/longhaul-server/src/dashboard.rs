//! Dashboard: HTML pages for operators and tenants.
//!
//! Pages read with the functions behind the public API and with the caller's permissions, and their
//! buttons call the API's operations. The server renders complete pages that work without the script;
//! the script refreshes them and adds keyboard shortcuts.

mod assets;
mod audit;
mod charts;
mod components;
mod error_page;
mod form;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod job;
mod jobs;
mod json_tree;
mod keys;
pub(crate) mod layout;
mod overview;
mod page_context;
mod same_site;
mod session;
mod sign_in;
mod submit;
mod tenants;
mod usage;
mod webhooks;

use axum::routing::{get, post};
use axum::{Router, middleware};

use crate::api::AppState;
use crate::problem::{Code, Problem};

/// Returns the routes of all pages with their middleware.
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
        .route("/ui/{*path}", get(not_found))
        .route_layer(middleware::from_fn_with_state(state.auth.clone(), session::admit));
    let open = Router::new()
        .route("/ui", get(async || axum::response::Redirect::to("/")))
        .route("/ui/sign-in", get(sign_in::show).post(sign_in::sign_in));
    pages
        .merge(open)
        .route_layer(middleware::from_fn(same_site::reject_other_sites))
        .route_layer(middleware::from_fn_with_state(state.auth.clone(), error_page::render_errors))
        .merge(assets::router())
}

async fn not_found() -> Problem {
    Problem::new(Code::NotFound, "no page at this address")
}
