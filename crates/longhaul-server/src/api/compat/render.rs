//! The render door: `POST /render`, and `GET /d/{shortlink}`, where its pictures are.
//!
//! A short link follows from what is asked for, and it is the key that the picture's job is submitted under. So the
//! same request is the same job, a picture that was drawn before is there at once, and whatever ends a job (its
//! retention, a purge) ends its link.

mod image;
mod response;
mod short_link;
mod submit;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use longhaul::blob::Keyring;
use longhaul_render::Limits;

use super::chat::said_in;
use super::error_format::{ErrorFormat, speak};
use crate::api::AppState;
use crate::problem::{Code, Problem};
use short_link::Links;

pub(crate) use response::show;

/// What the door goes by.
#[derive(Debug, Clone)]
pub struct RenderApi {
    links: Links,
    limits: Limits,
    retention: Duration,
    public_links: bool,
}

impl RenderApi {
    /// A door whose links nobody can make up who has not these keys. It turns away what is over the limits, and what
    /// it lets in is kept for `retention`.
    pub fn new(keyring: Arc<Keyring>, limits: Limits, retention: Duration) -> Self {
        Self { links: Links::new(keyring), limits, retention, public_links: false }
    }

    /// Whether a link is all that somebody needs; otherwise only its own tenant sees the picture.
    #[must_use]
    pub fn public_links(mut self, public: bool) -> Self {
        self.public_links = public;
        self
    }
}

/// The door's routes.
pub(crate) fn router(state: &AppState) -> Router<AppState> {
    let router = Router::new().route("/render", post(submit::submit));
    if state.render.as_ref().is_some_and(|door| door.public_links) {
        let open = Router::new()
            .route("/d/{shortlink}", get(image::for_everybody))
            .route_layer(middleware::from_fn_with_state(ErrorFormat::Ollama, speak));
        return said_in(router, ErrorFormat::Ollama, &state.auth).merge(open);
    }
    let router = router.route("/d/{shortlink}", get(image::for_its_tenant));
    said_in(router, ErrorFormat::Ollama, &state.auth)
}

impl AppState {
    /// The door, or what has to be configured for there to be one.
    fn render(&self) -> Result<&RenderApi, Problem> {
        self.render.as_ref().ok_or_else(|| {
            let detail =
                "this server draws no diagrams: its configuration has render.enabled = false";
            Problem::new(Code::RenderOff, detail)
        })
    }
}
