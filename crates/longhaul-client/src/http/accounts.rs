//! Tenants, API keys and the audit log, for admins.

use reqwest::Method;

use super::call::{Call, Repeat, add};
use super::{Client, ClientError};
use crate::wire::{
    AuditList, KeyList, KeyRequest, NewKey, RotateRequest, Tenant, TenantList, TenantPatch,
    TenantRequest,
};

impl Client {
    /// Creates an API key. Only this response contains it.
    pub async fn create_key(&self, request: &KeyRequest) -> Result<NewKey, ClientError> {
        let url = self.url(&["v1", "keys"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(request)?).await
    }

    /// Lists API keys of one tenant or all, including expired and revoked ones, after `cursor`.
    pub async fn keys(
        &self,
        tenant: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<KeyList, ClientError> {
        let mut url = self.url(&["v1", "keys"])?;
        add(&mut url, &[("tenant", tenant), ("cursor", cursor)]);
        self.json(Call::get(url)).await
    }

    /// Revokes an API key.
    pub async fn revoke_key(&self, id: &str) -> Result<(), ClientError> {
        let url = self.url(&["v1", "keys", id])?;
        self.done(Call::new(Method::DELETE, url, Repeat::Safe)).await
    }

    /// Replaces an API key; the old one stays valid for a while.
    pub async fn rotate_key(
        &self,
        id: &str,
        request: &RotateRequest,
    ) -> Result<NewKey, ClientError> {
        let url = self.url(&["v1", "keys", id, "rotate"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(request)?).await
    }

    /// Creates a tenant.
    pub async fn create_tenant(&self, request: &TenantRequest) -> Result<Tenant, ClientError> {
        let url = self.url(&["v1", "tenants"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(request)?).await
    }

    /// Lists tenants by id, after `cursor`.
    pub async fn tenants(&self, cursor: Option<&str>) -> Result<TenantList, ClientError> {
        let mut url = self.url(&["v1", "tenants"])?;
        add(&mut url, &[("cursor", cursor)]);
        self.json(Call::get(url)).await
    }

    /// Returns a tenant.
    pub async fn tenant(&self, id: &str) -> Result<Tenant, ClientError> {
        self.json(Call::get(self.url(&["v1", "tenants", id])?)).await
    }

    /// Changes a tenant.
    pub async fn change_tenant(
        &self,
        id: &str,
        patch: &TenantPatch,
    ) -> Result<Tenant, ClientError> {
        let url = self.url(&["v1", "tenants", id])?;
        self.json(Call::new(Method::PATCH, url, Repeat::Safe).body(patch)?).await
    }

    /// Lists the audit log, newest first, of a tenant, of one job, key or queue, or all, before `cursor`.
    pub async fn audit(
        &self,
        tenant: Option<&str>,
        target: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<AuditList, ClientError> {
        let mut url = self.url(&["v1", "audit"])?;
        add(&mut url, &[("tenant", tenant), ("target", target), ("cursor", cursor)]);
        self.json(Call::get(url)).await
    }
}
