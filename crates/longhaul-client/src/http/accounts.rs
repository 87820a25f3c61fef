//! Tenants, API keys and the audit log, for admins.

use reqwest::Method;

use super::call::Repeat;
use super::{Client, Result};
use crate::wire::{
    AuditList, KeyList, KeyRequest, NewKey, RotateRequest, Tenant, TenantList, TenantPatch,
    TenantRequest,
};

impl Client {
    /// Creates an API key. Only this response contains it.
    pub async fn create_key(&self, request: &KeyRequest) -> Result<NewKey> {
        self.post(&["v1", "keys"], request).await
    }

    /// Lists API keys of one tenant or all, including expired and revoked ones, after `cursor`.
    pub async fn keys(&self, tenant: Option<&str>, cursor: Option<&str>) -> Result<KeyList> {
        self.get(&["v1", "keys"], &[("tenant", tenant), ("cursor", cursor)]).await
    }

    /// Revokes an API key.
    pub async fn revoke_key(&self, id: &str) -> Result<()> {
        self.done(self.call(Method::DELETE, &["v1", "keys", id], Repeat::Safe)?).await
    }

    /// Replaces an API key; the old one stays valid for a while.
    pub async fn rotate_key(&self, id: &str, request: &RotateRequest) -> Result<NewKey> {
        self.post(&["v1", "keys", id, "rotate"], request).await
    }

    /// Creates a tenant.
    pub async fn create_tenant(&self, request: &TenantRequest) -> Result<Tenant> {
        self.post(&["v1", "tenants"], request).await
    }

    /// Lists tenants by id, after `cursor`.
    pub async fn tenants(&self, cursor: Option<&str>) -> Result<TenantList> {
        self.get(&["v1", "tenants"], &[("cursor", cursor)]).await
    }

    /// Returns a tenant.
    pub async fn tenant(&self, id: &str) -> Result<Tenant> {
        self.get(&["v1", "tenants", id], &[]).await
    }

    /// Changes a tenant.
    pub async fn change_tenant(&self, id: &str, patch: &TenantPatch) -> Result<Tenant> {
        let call = self.call(Method::PATCH, &["v1", "tenants", id], Repeat::Safe)?;
        self.json(call.body(patch)?).await
    }

    /// Lists the audit log, newest first, of a tenant, of one job, key or queue, or all, before `cursor`.
    pub async fn audit(
        &self,
        tenant: Option<&str>,
        target: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<AuditList> {
        let query = [("tenant", tenant), ("target", target), ("cursor", cursor)];
        self.get(&["v1", "audit"], &query).await
    }
}
