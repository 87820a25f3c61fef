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
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use longhaul::blob::Keyring;
use longhaul_render::Limits;

use super::error_format::{ErrorFormat, convert_problem, with_error_format};
use crate::api::AppState;
use crate::api::http::caller::{Read, Submit};
use crate::api::http::load_shedding::Class;
use crate::api::http::routes::Routes;
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

pub(crate) fn router(state: &AppState) -> Router<AppState> {
    let submit =
        Routes::new().undocumented::<Submit>(Class::Submission, "/render", post(submit::submit));
    let (format, path) = (ErrorFormat::Ollama, "/d/{shortlink}");
    if state.render.as_ref().is_some_and(|render| render.public_links) {
        let image =
            Routes::new().undocumented_public(Class::Normal, path, get(image::for_everybody));
        let convert = from_fn_with_state(format, convert_problem);
        return with_error_format(submit, format, state)
            .merge(image.into_router(state, |methods| methods.layer(convert.clone())));
    }
    let image = get(image::for_its_tenant);
    with_error_format(submit.undocumented::<Read>(Class::Normal, path, image), format, state)
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
