//! Sessions of browsers: what somebody signed in with, sealed in a cookie, and asked of again each time.
//!
//! Nothing is kept on the server, so any replica opens what another one sealed, and a key that ends
//! takes its sessions with it.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use longhaul::Timestamp;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::admit::enter;
use super::{Auth, TooFast};
use crate::problem::{Code, Problem};
use crate::secret::Secret;

/// What sessions are sealed for.
const SESSION_CONTEXT: &[u8] = b"dashboard session";
/// What the tokens of forms are made for.
const FORM_PURPOSE: &[u8] = b"dashboard form";
/// The cookie that holds one. The name makes browsers take it over TLS or from this very machine only, and
/// for this host alone.
pub(crate) const SESSION_COOKIE: &str = "__Host-longhaul";
/// After how long somebody has to sign in again.
pub(crate) const SESSION_LASTS: Duration = Duration::from_hours(12);
/// Attempts to sign in that one address may make in a second. Keys cannot be guessed; this bounds what
/// guessing costs us.
const SIGN_INS_PER_S: u32 = 5;

impl Auth {
    /// Seals a key or a token, to be opened again until the session ends.
    pub(crate) fn seal_session(&self, shown: &Secret) -> String {
        let ends_at = self.now().after(SESSION_LASTS).as_millis();
        let text = Zeroizing::new(format!("{ends_at} {}", shown.expose()));
        self.0.keyring.seal_text(&text, SESSION_CONTEXT)
    }

    /// What was sealed; nothing of a session that has ended, or that is none of ours.
    pub(crate) fn open_session(&self, sealed: &str) -> Option<Secret> {
        let text = self.0.keyring.open_text(sealed, SESSION_CONTEXT).ok()?;
        let (ends_at, shown) = text.split_once(' ')?;
        let ends_at = Timestamp::from_millis(ends_at.parse().ok()?);
        Secret::new(shown).filter(|_| self.now() < ends_at)
    }

    /// What the forms of a session carry, so that nobody else's page can send them.
    pub(crate) fn form_token(&self, session: &str) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0.keyring.mac(FORM_PURPOSE, session.as_bytes()))
    }

    /// Whether a form carries it, also one that was shown before the server's key was rotated.
    pub(crate) fn is_form_token(&self, token: &str, session: &str) -> bool {
        let keyring = &self.0.keyring;
        let mut digests =
            keyring.ids().filter_map(|id| keyring.mac_by(id, FORM_PURPOSE, session.as_bytes()));
        let Ok(token) = BASE64_URL_SAFE_NO_PAD.decode(token) else { return false };
        digests.any(|digest| bool::from(digest.as_slice().ct_eq(&token)))
    }

    /// Counts an attempt to sign in.
    pub(crate) fn count_sign_in(&self, address: Option<IpAddr>) -> Result<(), Problem> {
        let from = address.map_or_else(|| "nowhere".to_owned(), |address| address.to_string());
        let passed = self.0.rates.pass(&format!("sign-in {from}"), SIGN_INS_PER_S, self.now());
        passed.map(|_| ()).map_err(|TooFast { again_in }| {
            let detail = "too many attempts to sign in come from this address";
            Problem::new(Code::TooManyRequests, detail).retry_after(again_in)
        })
    }

    /// Lets in whoever showed this, as it would be let in with a header.
    pub(crate) async fn admit_shown(
        &self,
        shown: Option<&Secret>,
        request: Request,
        next: Next,
    ) -> Response {
        let principal = self.principal(shown.map(Secret::expose)).await;
        enter(self, principal, request, next).await
    }
}
