//! Signing secrets of deliveries, and how they are stored.

use std::sync::Arc;

use longhaul::TenantId;
use longhaul::blob::{KeyError, Keyring};
use zeroize::Zeroizing;

use super::signature::SigningSecret;
use crate::secret::Secret;

/// Context for the derivation of tenants' default secrets.
const TENANT_PURPOSE: &[u8] = b"webhook secret";
/// Previous server keys that also sign, besides the current one.
const FORMER_MAX: usize = 1;

/// Seals and opens secrets. The database stores them sealed with the server's key only.
#[derive(Debug, Clone)]
pub struct Secrets {
    keyring: Arc<Keyring>,
    /// Shared by all receivers of state events.
    states: Option<Secret>,
}

/// Binds a sealed secret to its tenant and its endpoint or URL.
fn context(tenant: &TenantId, of: &str) -> Vec<u8> {
    format!("webhook {} {of}", tenant.as_str()).into_bytes()
}

impl Secrets {
    pub fn new(keyring: Arc<Keyring>) -> Self {
        Self { keyring, states: None }
    }

    /// Sets the secret for state events. Without it they are not signed.
    #[must_use]
    pub fn for_states(mut self, secret: Option<Secret>) -> Self {
        self.states = secret;
        self
    }

    pub(super) fn of_states(&self) -> Option<&Secret> {
        self.states.as_ref()
    }

    /// Seals the secret of an endpoint (by id) or of a job's webhook (by URL).
    pub fn seal(&self, secret: &SigningSecret, tenant: &TenantId, of: &str) -> String {
        self.keyring.seal_text(&secret.expose(), &context(tenant, of))
    }

    pub fn open(
        &self,
        sealed: &str,
        tenant: &TenantId,
        of: &str,
    ) -> Result<SigningSecret, KeyError> {
        let text: Zeroizing<String> = self.keyring.open_text(sealed, &context(tenant, of))?;
        text.parse().map_err(|_| KeyError::Damaged)
    }

    /// Returns a tenant's default secret, derived from the server's key.
    pub fn of_tenant(&self, tenant: &TenantId) -> SigningSecret {
        let bytes = self.keyring.mac(TENANT_PURPOSE, tenant.as_str().as_bytes());
        SigningSecret::of(bytes)
    }

    /// Returns the default secrets to sign with: also the previous one while the server's key is rotated.
    pub fn all_of_tenant(&self, tenant: &TenantId) -> Vec<SigningSecret> {
        let message = tenant.as_str().as_bytes();
        let by = |id: &str| self.keyring.mac_by(id, TENANT_PURPOSE, message);
        let all = self.keyring.ids().filter_map(by).take(1 + FORMER_MAX);
        all.map(SigningSecret::of).collect()
    }
}
