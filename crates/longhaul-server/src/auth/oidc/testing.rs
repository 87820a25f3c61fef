//! Signing keys and a local issuer for tests.

mod server;
mod signer;

use std::time::Duration;

use longhaul::{Clock, Timestamp};
use serde_json::{Value, json};

use super::{Claims, Issuer, OidcSettings, TokenVerifyError};
pub(crate) use server::{Behaviour, LocalIssuer};
pub(crate) use signer::{Signer, part};

/// Start of the manual clock.
pub(crate) const BEGIN: Timestamp = Timestamp::from_millis(1_763_000_000_000);

/// A local issuer, the verifier of its tokens, and a manual clock.
pub(crate) struct IssuerHarness {
    pub(crate) clock: Clock,
    pub(crate) server: LocalIssuer,
    pub(crate) issuer: Issuer,
    pub(crate) signer: Signer,
}

impl IssuerHarness {
    pub(crate) async fn new() -> Self {
        Self::signing(Signer::ed25519("one")).await
    }

    pub(crate) async fn signing(signer: Signer) -> Self {
        let server = LocalIssuer::start(&[&signer]).await;
        let clock = Clock::manual(BEGIN);
        let issuer = Issuer::new(settings(&server.url), clock.clone()).unwrap();
        Self { clock, server, issuer, signer }
    }

    /// Signs a token with changed claims.
    pub(crate) fn token_by(&self, signer: &Signer, change: impl FnOnce(&mut Value)) -> String {
        let now = self.clock.now().as_millis() / 1_000;
        let mut claims = json!({
            "iss": self.server.url,
            "aud": "jobs",
            "sub": "ann",
            "iat": now,
            "exp": now + 3_600,
            "tenant": "default",
            "scope": "openid longhaul:submit longhaul:read",
        });
        change(&mut claims);
        signer.token(&claims)
    }

    pub(crate) fn token(&self, change: impl FnOnce(&mut Value)) -> String {
        self.token_by(&self.signer, change)
    }

    pub(crate) async fn verify(&self, text: &str) -> Result<Claims, TokenVerifyError> {
        self.issuer.verify(text).await
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

pub(crate) fn settings(issuer: &str) -> OidcSettings {
    OidcSettings {
        issuer: issuer.to_owned(),
        audience: "jobs".to_owned(),
        tenant_claim: "tenant".to_owned(),
        scope_claim: "scope".to_owned(),
        scope_prefix: "longhaul:".to_owned(),
        jwks_url: None,
        lifetime_max: Duration::from_hours(24),
    }
}
