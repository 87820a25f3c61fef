//! Who looks at a page: whoever signed in with this browser, or everybody where nobody has to.

use axum::extract::{Request, State};
use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

use crate::auth::{Auth, SESSION_COOKIE, SESSION_LASTS};
use crate::secret::Secret;

const ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";
/// What browsers keep of a cookie, with some room for its name and attributes.
const SEALED_BYTES_MAX: usize = 3_900;

/// Left in the request's extensions for pages.
#[derive(Debug, Clone)]
pub(super) struct Session {
    /// What somebody signed in with; none where nobody has to.
    pub(super) shown: Option<Secret>,
    /// What the forms of its pages carry.
    pub(super) token: String,
    /// What the token is made of.
    seal: String,
}

impl Session {
    /// The session that a request's cookie holds.
    pub(super) fn of(auth: &Auth, headers: &HeaderMap) -> Self {
        let sealed = cookie(headers);
        let shown = sealed.and_then(|sealed| auth.open_session(sealed));
        // Without a session there is nothing to bind a token to but this server: then it is the rule on
        // sites (`guard`) that keeps other pages out.
        let seal = sealed.filter(|_| shown.is_some()).unwrap_or_default().to_owned();
        Self { shown, token: auth.form_token(&seal), seal }
    }

    /// Whether a form was made for this session.
    pub(super) fn knows(&self, auth: &Auth, token: &str) -> bool {
        auth.is_form_token(token, &self.seal)
    }
}

/// Asks of every page who looks at it. `/v1` knows nothing of cookies, and pages of nothing else.
pub(super) async fn admit(State(auth): State<Auth>, mut request: Request, next: Next) -> Response {
    let session = Session::of(&auth, request.headers());
    let shown = session.shown.clone();
    request.extensions_mut().insert(session);
    auth.authenticate_session(shown.as_ref(), request, next).await
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).map(str::trim);
    pairs.find_map(|pair| pair.strip_prefix(SESSION_COOKIE)?.strip_prefix('='))
}

/// Whether the request brings a session, good or not.
pub(super) fn has_cookie(headers: &HeaderMap) -> bool {
    cookie(headers).is_some()
}

/// The cookie for somebody who signs in; none if browsers would not keep it.
pub(super) fn begin(auth: &Auth, shown: &Secret) -> Option<HeaderValue> {
    let sealed = auth.seal_session(shown);
    if sealed.len() > SEALED_BYTES_MAX {
        return None;
    }
    let lasts = SESSION_LASTS.as_secs();
    HeaderValue::from_str(&format!("{SESSION_COOKIE}={sealed}; {ATTRIBUTES}; Max-Age={lasts}")).ok()
}

/// The cookie that takes it away.
pub(super) fn end() -> HeaderValue {
    HeaderValue::from_static(
        "__Host-longhaul=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0",
    )
}
