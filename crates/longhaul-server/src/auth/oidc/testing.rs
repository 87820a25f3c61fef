//! Keys that sign, and an issuer of a test's own behind a real socket.

mod server;
mod signer;

use std::time::Duration;

use longhaul::{Clock, Timestamp};
use serde_json::{Value, json};

use super::{Claims, Issuer, OidcSettings, Unjudged};
pub(crate) use server::{LocalIssuer, Mood};
pub(crate) use signer::{Signer, part};

/// When tests begin.
pub(crate) const BEGIN: Timestamp = Timestamp::from_millis(1_763_000_000_000);

/// An issuer, what judges its tokens, and a clock that stands still.
pub(crate) struct Bench {
    pub(crate) clock: Clock,
    pub(crate) server: LocalIssuer,
    pub(crate) issuer: Issuer,
    pub(crate) signer: Signer,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::signing(Signer::ed25519("one")).await
    }

    pub(crate) async fn signing(signer: Signer) -> Self {
        let server = LocalIssuer::start(&[&signer]).await;
        let clock = Clock::manual(BEGIN);
        let issuer = Issuer::new(settings(&server.url), clock.clone()).unwrap();
        Self { clock, server, issuer, signer }
    }

    /// A token as `signer` makes it, with claims that are changed before.
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

    pub(crate) async fn judge(&self, text: &str) -> Result<Claims, Unjudged> {
        self.issuer.judge(text).await
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
    }
}
