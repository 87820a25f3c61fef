//! Submitted forms. Reading one checks its token.

use axum::extract::{FromRequest, Request};
use longhaul::job::parse_duration;
use url::form_urlencoded;

use super::session::Session;
use crate::api::AppState;
use crate::api::http::body;
use crate::problem::{Code, Problem, Result};

/// Name of the hidden field with the form token.
pub(super) const TOKEN: &str = "token";

/// Fields of a form in their order.
#[derive(Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl FromRequest<AppState> for Form {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self> {
        let (parts, body) = request.into_parts();
        let Some(session) = parts.extensions.get::<Session>() else {
            return Err(Problem::internal("the route has no session middleware"));
        };
        let bytes = body::read(&parts.headers, body, body::SMALL_BYTES_MAX).await?;
        let fields: Vec<(String, String)> = form_urlencoded::parse(&bytes).into_owned().collect();
        let form = Self(fields);
        check(state, session, form.text(TOKEN).as_deref())?;
        Ok(form)
    }
}

/// Rejects a form whose token does not belong to this session.
pub(super) fn check(state: &AppState, session: &Session, token: Option<&str>) -> Result<()> {
    if token.is_some_and(|token| session.is_valid_token(&state.auth, token)) {
        return Ok(());
    }
    let detail = "the form is not from this session; go back, reload the page and try again";
    Err(Problem::new(Code::Forbidden, detail))
}

impl Form {
    pub(super) fn new(fields: Vec<(String, String)>) -> Self {
        Self(fields)
    }

    /// Returns the trimmed text of a field, or `None` if it is empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let mut values = self.all(name);
        values.find(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Returns the text of a field with all spaces.
    pub(super) fn verbatim(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the trimmed values of all fields with this name.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.trim())
    }

    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let wrong =
            |text: &str| Problem::invalid(format_args!("{name}: {text:?} is not a valid number"));
        self.text(name).map(|text| text.parse().map_err(|_| wrong(&text))).transpose()
    }

    pub(super) fn duration(&self, name: &str) -> Result<Option<std::time::Duration>> {
        let text = self.text(name);
        text.map(|text| {
            parse_duration(&text).map_err(|error| Problem::invalid(format_args!("{name}: {error}")))
        })
        .transpose()
    }
}
