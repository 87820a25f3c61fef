//! Dashboard sessions: an encrypted cookie with the API key or token of the sign-in.

use axum::extract::{Request, State};
use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

use crate::auth::{Auth, SESSION_COOKIE, SESSION_LASTS};
use crate::secret::Secret;

const ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";
/// Size limit of the cookie's value. Browsers store 4,096 bytes with name and attributes.
const SEALED_BYTES_MAX: usize = 3_900;

/// The session of a request, stored in its extensions.
#[derive(Debug, Clone)]
pub(super) struct Session {
    /// The API key or token of the sign-in. None if authentication is off.
    pub(super) credential: Option<Secret>,
    /// Token in the forms of this session's pages.
    pub(super) token: String,
    /// The sealed cookie that the token is derived from.
    seal: String,
}

impl Session {
    /// Returns the session in the request's cookie.
    pub(super) fn of(auth: &Auth, headers: &HeaderMap) -> Self {
        let sealed = cookie(headers);
        let credential = sealed.and_then(|sealed| auth.open_session(sealed));
        // Without a session, the token is bound to this server only. Then the check of `same_site` keeps
        // pages of other sites out.
        let seal = sealed.filter(|_| credential.is_some()).unwrap_or_default().to_owned();
        Self { credential, token: auth.form_token(&seal), seal }
    }

    /// Reports whether a form token belongs to this session.
    pub(super) fn is_valid_token(&self, auth: &Auth, token: &str) -> bool {
        auth.is_form_token(token, &self.seal)
    }
}

/// Authenticates page requests by cookie. `/v1` ignores cookies, and pages ignore every other credential.
pub(super) async fn admit(State(auth): State<Auth>, mut request: Request, next: Next) -> Response {
    let session = Session::of(&auth, request.headers());
    let credential = session.credential.clone();
    request.extensions_mut().insert(session);
    auth.authenticate_session(credential.as_ref(), request, next).await
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).map(str::trim);
    pairs.find_map(|pair| pair.strip_prefix(SESSION_COOKIE)?.strip_prefix('='))
}

/// Reports whether the request has a session cookie, valid or not.
pub(super) fn has_cookie(headers: &HeaderMap) -> bool {
    cookie(headers).is_some()
}

/// Returns the cookie of a new session, or `None` if it exceeds the size limit of browsers.
pub(super) fn begin(auth: &Auth, credential: &Secret) -> Option<HeaderValue> {
    let sealed = auth.seal_session(credential);
    if sealed.len() > SEALED_BYTES_MAX {
        return None;
    }
    let lasts = SESSION_LASTS.as_secs();
    HeaderValue::from_str(&format!("{SESSION_COOKIE}={sealed}; {ATTRIBUTES}; Max-Age={lasts}")).ok()
}

/// Returns the cookie that ends the session.
pub(super) fn end() -> HeaderValue {
    HeaderValue::from_static(
        "__Host-longhaul=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0",
    )
}
