//! Dashboard sessions: the user's credential, encrypted in a cookie and verified again at each request.
//!
//! The server stores nothing, so that every replica accepts every session, and revoking a key ends its
//! sessions.

use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use longhaul::Timestamp;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::Auth;
use super::middleware::run_as;
use crate::secret::Secret;

/// Domain separation of encrypted sessions.
const SESSION_CONTEXT: &[u8] = b"dashboard session";
/// Domain separation of form tokens.
const FORM_PURPOSE: &[u8] = b"dashboard form";
/// Session cookie. Browsers accept the `__Host-` prefix only over TLS or on localhost, and for this host only.
pub(crate) const SESSION_COOKIE: &str = "__Host-longhaul";
/// Lifetime of a session.
pub(crate) const SESSION_LASTS: Duration = Duration::from_hours(12);

impl Auth {
    /// Encrypts a key or token into a session that lasts `SESSION_LASTS`.
    pub(crate) fn seal_session(&self, credential: &Secret) -> String {
        let ends_at = self.now().after(SESSION_LASTS).as_millis();
        let text = Zeroizing::new(format!("{ends_at} {}", credential.expose()));
        self.0.keyring.seal_text(&text, SESSION_CONTEXT)
    }

    /// Returns the credential of a session. `None` if it has expired or was not issued here.
    pub(crate) fn open_session(&self, sealed: &str) -> Option<Secret> {
        let text = self.0.keyring.open_text(sealed, SESSION_CONTEXT).ok()?;
        let (ends_at, credential) = text.split_once(' ')?;
        let ends_at = Timestamp::from_millis(ends_at.parse().ok()?);
        Secret::new(credential).filter(|_| self.now() < ends_at)
    }

    /// Returns the CSRF token for the forms of a session.
    pub(crate) fn form_token(&self, session: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0.keyring.mac(FORM_PURPOSE, session.as_bytes()))
    }

    /// Returns whether a form's CSRF token is valid, also after a rotation of the server's key.
    pub(crate) fn is_form_token(&self, token: &str, session: &str) -> bool {
        let keyring = &self.0.keyring;
        let mut digests =
            keyring.ids().filter_map(|id| keyring.mac_by(id, FORM_PURPOSE, session.as_bytes()));
        let Ok(token) = BASE64_URL_SAFE_NO_PAD.decode(token) else { return false };
        digests.any(|digest| bool::from(digest.as_slice().ct_eq(&token)))
    }

    /// Runs a request as the principal of its session. The session's credential must still be valid, because the user
    /// would otherwise act for another tenant without noticing.
    pub(crate) async fn authenticate_session(
        &self,
        credential: Option<&Secret>,
        request: Request,
        next: Next,
    ) -> Response {
        let principal = match credential {
            Some(credential) => self.verified_principal(credential.expose()).await,
            None => self.principal(Ok(None)).await,
        };
        run_as(self, principal, request, next).await
    }
}
