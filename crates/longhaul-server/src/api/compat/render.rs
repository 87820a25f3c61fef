//! Render API: `POST /render`, and `GET /d/{shortlink}` for the images.
//!
//! The short link is derived from the request and is the idempotency key of its job. The same request is therefore the
//! same job, an image that exists is returned at once, and a link ends with its job (retention or purge).

mod image;
mod response;
mod short_link;
mod submit;

use std::sync::Arc;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Json, Router};
use longhaul::blob::Keyring;
use longhaul_render::RenderLimits;
use serde_json::{Value, json};
use tower::layer::util::Identity;

use super::error_format::{ErrorFormat, convert_problem, with_error_format};
use crate::api::AppState;
use crate::api::http::caller::{Read, Submit};
use crate::api::http::load_shedding::Class;
use crate::api::http::routes::Routes;
use crate::problem::{Code, Problem, Result};
use short_link::Links;

pub(crate) use response::show;

/// Settings of the render API.
#[derive(Debug, Clone)]
pub struct RenderApi {
    links: Links,
    limits: RenderLimits,
    retention: Duration,
    public_links: bool,
    /// Prefix of all links, without a slash at the end.
    base_url: String,
}

impl RenderApi {
    /// Creates the API. Links are derived with `keyring`; images are kept for `retention`.
    pub fn new(keyring: Arc<Keyring>, limits: RenderLimits, retention: Duration) -> Self {
        Self {
            links: Links::new(keyring),
            limits,
            retention,
            public_links: false,
            base_url: String::new(),
        }
    }

    /// Serves images without authentication to every client that has the link. Defaults to `false`.
    #[must_use]
    pub fn public_links(mut self, public: bool) -> Self {
        self.public_links = public;
        self
    }

    /// Makes all links absolute, for example `https://diagrams.example`. Defaults to links without a host.
    #[must_use]
    pub fn base_url(mut self, url: &str) -> Self {
        url.clone_into(&mut self.base_url);
        self
    }
}

pub(crate) fn router(state: &AppState) -> Router<AppState> {
    let submit =
        Routes::new().undocumented::<Submit>(Class::Submission, "/render", post(submit::submit));
    let (format, path) = (ErrorFormat::Ollama, "/d/{shortlink}");
    let health = Routes::new().undocumented_public(Class::Vital, "/health", get(health));
    let health = health.into_router(state, Identity::new());
    if state.render.as_ref().is_some_and(|render| render.public_links) {
        let image = Routes::new().undocumented_public(Class::Normal, path, get(image::get_public));
        let convert = from_fn_with_state(format, convert_problem);
        return with_error_format(submit, format, state)
            .merge(health)
            .merge(image.into_router(state, convert));
    }
    let image = get(image::get);
    with_error_format(submit.undocumented::<Read>(Class::Normal, path, image), format, state)
        .merge(health)
}

/// `GET /health`: clients of the service whose API this is probe it.
async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

impl AppState {
    /// Returns the render API, or the problem that it is disabled.
    fn render(&self) -> Result<&RenderApi> {
        self.render.as_ref().ok_or_else(|| {
            let detail = "rendering is disabled: the configuration has render.enabled = false";
            Problem::new(Code::RenderOff, detail)
        })
    }
}
