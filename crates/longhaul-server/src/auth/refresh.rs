//! Background work of authentication: polls for changed keys and tenants, records key use, prunes the audit log.

use std::time::Duration;

use longhaul::{Engine, TenantId};
use tokio_util::sync::CancellationToken;

use super::Auth;

/// Interval between polls for changes by other replicas.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Overlap between polls. Changes carry the start time of their transaction, so each poll goes back by more
/// than a transaction may take.
const POLL_OVERLAP: Duration = Duration::from_secs(30);
/// Polls between two writes of key use.
const POLLS_PER_USE_RECORD: u32 = 30;
/// Retention of audit entries.
const AUDIT_RETENTION: Duration = Duration::from_hours(24 * 400);
const PRUNE_BATCH: usize = 1_000;
const TENANT_PAGE: usize = 1_000;

impl Auth {
    /// Runs until `stop`. Also sets the engine's limits on running jobs per tenant.
    pub async fn run_background(self, engine: Engine, stop: CancellationToken) {
        if let Some(issuer) = &self.0.issuer {
            issuer.prefetch_keys();
        }
        let mut polls: u32 = 0;
        let mut limits_loaded = false;
        loop {
            let changed =
                if self.0.settings.shared { self.poll_changes().await } else { Vec::new() };
            if !limits_loaded {
                limits_loaded = self.load_tenant_limits(&engine).await;
            }
            for tenant in changed {
                if let Ok(Some(tenant)) = self.tenant(&tenant).await {
                    engine.set_tenant_running_max(&tenant.id, tenant.limits.running_max);
                }
            }
            let interval = self.0.clock.sleep(POLL_INTERVAL);
            if stop.run_until_cancelled(interval).await.is_none() {
                self.record_use().await;
                return;
            }
            polls += 1;
            if polls.is_multiple_of(POLLS_PER_USE_RECORD) {
                self.record_use().await;
            }
            if polls.is_multiple_of(POLLS_PER_USE_RECORD * 60) {
                self.prune_audit().await;
            }
        }
    }

    /// Drops keys and tenants that other replicas changed from the cache, and returns the tenants. While polling
    /// fails the cache is bypassed.
    pub(crate) async fn poll_changes(&self) -> Vec<TenantId> {
        let now = self.now();
        match self.0.accounts.changed_since(now.before(POLL_OVERLAP)).await {
            Ok(changed) => {
                self.0.cache.apply_changes(&changed, now);
                changed.tenants
            }
            Err(error) => {
                tracing::warn!(%error, "cannot poll for revoked API keys");
                Vec::new()
            }
        }
    }

    /// Passes all individual limits on running jobs to the engine. Returns false if that has to be retried.
    async fn load_tenant_limits(&self, engine: &Engine) -> bool {
        let mut after = None;
        loop {
            let tenants = match self.0.accounts.tenants(after.as_ref(), TENANT_PAGE).await {
                Ok(tenants) => tenants,
                Err(error) => {
                    tracing::warn!(%error, "cannot read tenant limits");
                    return false;
                }
            };
            for tenant in tenants.iter().filter(|tenant| tenant.limits.running_max.is_some()) {
                engine.set_tenant_running_max(&tenant.id, tenant.limits.running_max);
            }
            if tenants.len() < TENANT_PAGE {
                return true;
            }
            after = tenants.into_iter().next_back().map(|tenant| tenant.id);
        }
    }

    /// Writes the last use of keys to the store.
    pub(crate) async fn record_use(&self) {
        let used: Vec<_> = std::mem::take(&mut *self.used()).into_iter().collect();
        if used.is_empty() {
            return;
        }
        if let Err(error) = self.0.accounts.record_key_use(&used).await {
            tracing::warn!(%error, "cannot record the use of API keys");
        }
    }

    async fn prune_audit(&self) {
        let before = self.now().before(AUDIT_RETENTION);
        if let Err(error) = self.0.accounts.prune_audit(before, PRUNE_BATCH).await {
            tracing::warn!(%error, "cannot prune the audit log");
        }
    }
}
