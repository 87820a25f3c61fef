//! Tenants, their keys, and who did what: for admins.

use reqwest::Method;

use super::call::{Call, Repeat, add};
use super::{Client, ClientError};
use crate::wire::{
    AuditList, KeyList, KeyRequest, NewKey, RotateRequest, Tenant, TenantList, TenantPatch,
    TenantRequest,
};

impl Client {
    /// Makes a key. The answer is the only time that it is shown.
    pub async fn create_key(&self, request: &KeyRequest) -> Result<NewKey, ClientError> {
        let url = self.url(&["v1", "keys"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(request)?).await
    }

    /// Keys, also those that have ended, of one tenant or of all; those after `cursor`.
    pub async fn keys(
        &self,
        tenant: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<KeyList, ClientError> {
        let mut url = self.url(&["v1", "keys"])?;
        add(&mut url, &[("tenant", tenant), ("cursor", cursor)]);
        self.json(Call::get(url)).await
    }

    /// Ends a key.
    pub async fn revoke_key(&self, id: &str) -> Result<(), ClientError> {
        let url = self.url(&["v1", "keys", id])?;
        self.done(Call::new(Method::DELETE, url, Repeat::Safe)).await
    }

    /// Makes a key in the place of another, which stays good for a while.
    pub async fn rotate_key(
        &self,
        id: &str,
        request: &RotateRequest,
    ) -> Result<NewKey, ClientError> {
        let url = self.url(&["v1", "keys", id, "rotate"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(request)?).await
    }

    /// Makes a tenant.
    pub async fn create_tenant(&self, request: &TenantRequest) -> Result<Tenant, ClientError> {
        let url = self.url(&["v1", "tenants"])?;
        self.json(Call::new(Method::POST, url, Repeat::Never).body(request)?).await
    }

    /// Tenants by id, those after `cursor`.
    pub async fn tenants(&self, cursor: Option<&str>) -> Result<TenantList, ClientError> {
        let mut url = self.url(&["v1", "tenants"])?;
        add(&mut url, &[("cursor", cursor)]);
        self.json(Call::get(url)).await
    }

    /// A tenant.
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

    /// What was done, latest first: to a tenant, to one job, key or queue, or to all; before `cursor`.
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
