//! What deliveries are signed with, and how it is kept.

use std::sync::Arc;

use longhaul::TenantId;
use longhaul::blob::{KeyError, Keyring};
use zeroize::Zeroizing;

use super::signature::SigningSecret;
use crate::secret::Secret;

/// What a tenant's own secret is derived for.
const TENANT_PURPOSE: &[u8] = b"webhook secret";
/// Signatures by former server keys, besides the current one's.
const FORMER_MAX: usize = 1;

/// Seals and opens secrets. The database has them sealed with the server's key only.
#[derive(Debug, Clone)]
pub struct Secrets {
    keyring: Arc<Keyring>,
    /// For receivers of states, who share one.
    states: Option<Secret>,
}

/// What a secret is sealed for: whose, and which.
fn context(tenant: &TenantId, of: &str) -> Vec<u8> {
    format!("webhook {} {of}", tenant.as_str()).into_bytes()
}

impl Secrets {
    /// By these keys.
    pub fn new(keyring: Arc<Keyring>) -> Self {
        Self { keyring, states: None }
    }

    /// Signs deliveries of states with this; without it they are not signed.
    #[must_use]
    pub fn for_states(mut self, secret: Option<Secret>) -> Self {
        self.states = secret;
        self
    }

    /// What deliveries of states are signed with.
    pub(super) fn of_states(&self) -> Option<&Secret> {
        self.states.as_ref()
    }

    /// Seals the secret of an endpoint, or of a job's own webhook by its URL.
    pub fn seal(&self, secret: &SigningSecret, tenant: &TenantId, of: &str) -> String {
        self.keyring.seal_text(&secret.expose(), &context(tenant, of))
    }

    /// Opens it again.
    pub fn open(
        &self,
        sealed: &str,
        tenant: &TenantId,
        of: &str,
    ) -> Result<SigningSecret, KeyError> {
        let text: Zeroizing<String> = self.keyring.open_text(sealed, &context(tenant, of))?;
        text.parse().map_err(|_| KeyError::Damaged)
    }

    /// The secret for jobs' own webhooks that were submitted without one: it follows from the server's key.
    pub fn of_tenant(&self, tenant: &TenantId) -> SigningSecret {
        let bytes = self.keyring.mac(TENANT_PURPOSE, tenant.as_str().as_bytes());
        SigningSecret::of(bytes)
    }

    /// The same for signing: while the server's key rotates, by the former one too.
    pub fn all_of_tenant(&self, tenant: &TenantId) -> Vec<SigningSecret> {
        let message = tenant.as_str().as_bytes();
        let by = |id: &str| self.keyring.mac_by(id, TENANT_PURPOSE, message);
        let all = self.keyring.ids().filter_map(by).take(1 + FORMER_MAX);
        all.map(SigningSecret::of).collect()
    }
}
