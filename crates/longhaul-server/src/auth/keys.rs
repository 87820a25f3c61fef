//! Creation, rotation and revocation of API keys.

use std::time::Duration;

use longhaul::store::StoreError;
use longhaul::store::accounts::{ApiKey, NewKey, Scope, Scopes};
use longhaul::{TenantId, Timestamp};
use zeroize::Zeroizing;

use super::api_key::{GeneratedKey, ParsedKey};
use super::{AuditContext, Auth};

/// A newly created API key, with its text, which is available only now.
#[derive(Debug)]
pub struct IssuedKey {
    pub key: ApiKey,
    /// The credential that the client sends.
    pub text: Zeroizing<String>,
}

/// Parameters of a new API key.
#[derive(Debug, Clone)]
pub struct KeySpec {
    pub tenant: TenantId,
    pub name: String,
    pub scopes: Scopes,
    pub expires_at: Option<Timestamp>,
    /// Requests per second allowed for this key.
    pub requests_per_s: Option<u32>,
}

impl Auth {
    /// Creates a key. `None` if there is no such tenant.
    pub async fn create_key(
        &self,
        spec: &KeySpec,
        by: &AuditContext,
    ) -> Result<Option<IssuedKey>, StoreError> {
        let (text, new) = self.generate_key(spec);
        let audit = self.audit_entry(by, &spec.tenant, "key.create", &new.id, describe(spec));
        let created = self.0.accounts.create_key(&new, &audit).await?;
        Ok(created.map(|key| IssuedKey { key, text }))
    }

    /// Creates an admin key if the store has no key at all, so that others can be created with it.
    pub async fn create_first_key(&self) -> Result<Option<IssuedKey>, StoreError> {
        let spec = KeySpec {
            tenant: TenantId::default(),
            name: "first admin key".to_owned(),
            scopes: [Scope::Admin].into_iter().collect(),
            expires_at: None,
            requests_per_s: None,
        };
        let (text, new) = self.generate_key(&spec);
        let server = AuditContext::server();
        let audit = self.audit_entry(&server, &spec.tenant, "key.create", &new.id, describe(&spec));
        let created = self.0.accounts.create_first_key(&new, &audit).await?;
        Ok(created.map(|key| IssuedKey { key, text }))
    }

    /// Replaces a key by a new one; the old key stays valid for `overlap`. `None` if there is no such key or it
    /// is no longer valid.
    pub async fn rotate_key(
        &self,
        id: &str,
        overlap: Duration,
        by: &AuditContext,
    ) -> Result<Option<IssuedKey>, StoreError> {
        let Some(old) = self.0.accounts.key(id).await? else { return Ok(None) };
        let spec = KeySpec {
            tenant: old.tenant.clone(),
            name: old.name.clone(),
            scopes: old.scopes,
            expires_at: old.expires_at,
            requests_per_s: old.requests_per_s,
        };
        let (text, new) = self.generate_key(&spec);
        let detail = format!("replaced by {}", new.id);
        let audit = self.audit_entry(by, &old.tenant, "key.rotate", id, detail);
        let ends_at = self.now().after(overlap);
        let created = self.0.accounts.rotate_key(id, &new, ends_at, &audit).await?;
        self.0.cache.remove_key(id);
        Ok(created.map(|key| IssuedKey { key, text }))
    }

    /// Revokes a key: on this replica at once, on others within 5 s. `None` if there is no such key.
    pub async fn revoke_key(
        &self,
        id: &str,
        by: &AuditContext,
    ) -> Result<Option<ApiKey>, StoreError> {
        let Some(key) = self.0.accounts.key(id).await? else { return Ok(None) };
        let audit = self.audit_entry(by, &key.tenant, "key.revoke", id, String::new());
        let revoked = self.0.accounts.revoke_key(id, &audit).await;
        self.0.cache.remove_key(id);
        revoked
    }

    fn generate_key(&self, spec: &KeySpec) -> (Zeroizing<String>, NewKey) {
        let GeneratedKey { id, text } = GeneratedKey::generate();
        let body = ParsedKey::parse(&text).map_or("", |parsed| parsed.body);
        let new = NewKey {
            id,
            tenant: spec.tenant.clone(),
            name: spec.name.clone(),
            scopes: spec.scopes,
            digest: self.digest(body.as_bytes()),
            expires_at: spec.expires_at,
            requests_per_s: spec.requests_per_s,
        };
        (text, new)
    }
}

fn describe(spec: &KeySpec) -> String {
    format!("{:?}: {:?}", spec.name, spec.scopes)
}
