//! What keys need in the background: news of changes, and a note of their use.

use std::time::Duration;

use longhaul::{Engine, TenantId, Timestamp};
use tokio_util::sync::CancellationToken;

use super::Auth;

/// How often changes of other replicas are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A change is dated when its transaction began: each look goes back by more than one may take.
const LOOK_BACK: Duration = Duration::from_secs(30);
/// Every how many looks the use of keys is written down.
const LOOKS_PER_NOTE: u32 = 30;
/// How long what was done is known.
const AUDIT_KEPT: Duration = Duration::from_hours(24 * 400);
const FORGET_AT_ONCE: usize = 1_000;
const TENANTS_AT_ONCE: usize = 1_000;

impl Auth {
    /// Looks for changes and notes uses until `stop`. The engine is told how many jobs of each tenant may run.
    pub async fn keep_up(self, engine: Engine, stop: CancellationToken) {
        if let Some(issuer) = &self.0.issuer {
            issuer.prepare();
        }
        let mut looks: u32 = 0;
        let mut told = false;
        loop {
            let changed = if self.0.settings.shared { self.look().await } else { Vec::new() };
            if !told {
                told = self.tell_limits(&engine).await;
            }
            for tenant in changed {
                if let Ok(Some(tenant)) = self.tenant(&tenant).await {
                    engine.set_tenant_running_max(&tenant.id, tenant.limits.running_max);
                }
            }
            let waited = self.0.clock.sleep(LOOK_EVERY);
            if stop.run_until_cancelled(waited).await.is_none() {
                self.note_use().await;
                return;
            }
            looks += 1;
            if looks.is_multiple_of(LOOKS_PER_NOTE) {
                self.note_use().await;
            }
            if looks.is_multiple_of(LOOKS_PER_NOTE * 60) {
                self.forget_audit().await;
            }
        }
    }

    /// Hears of what other replicas changed. While that fails, nothing that is remembered is believed.
    pub(crate) async fn look(&self) -> Vec<TenantId> {
        let now = self.now();
        let back = u64::try_from(LOOK_BACK.as_millis()).unwrap_or(u64::MAX);
        let since = now.as_millis().saturating_sub_unsigned(back);
        match self.0.accounts.changed_since(Timestamp::from_millis(since)).await {
            Ok(changed) => {
                self.0.known.hear(&changed, now);
                changed.tenants
            }
            Err(error) => {
                tracing::warn!(%error, "cannot tell which keys were revoked");
                Vec::new()
            }
        }
    }

    /// Tells the engine of all tenants that have a limit of their own on running jobs. False if it could
    /// not, and has to be tried again.
    async fn tell_limits(&self, engine: &Engine) -> bool {
        let mut after = None;
        loop {
            let tenants = match self.0.accounts.tenants(after.as_ref(), TENANTS_AT_ONCE).await {
                Ok(tenants) => tenants,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the tenants' limits");
                    return false;
                }
            };
            for tenant in tenants.iter().filter(|tenant| tenant.limits.running_max.is_some()) {
                engine.set_tenant_running_max(&tenant.id, tenant.limits.running_max);
            }
            if tenants.len() < TENANTS_AT_ONCE {
                return true;
            }
            after = tenants.into_iter().next_back().map(|tenant| tenant.id);
        }
    }

    /// Writes down when keys were used.
    pub(crate) async fn note_use(&self) {
        let used: Vec<_> = std::mem::take(&mut *self.used()).into_iter().collect();
        if used.is_empty() {
            return;
        }
        if let Err(error) = self.0.accounts.record_key_use(&used).await {
            tracing::warn!(%error, "when keys were used was not written down");
        }
    }

    async fn forget_audit(&self) {
        let kept = u64::try_from(AUDIT_KEPT.as_millis()).unwrap_or(u64::MAX);
        let before = Timestamp::from_millis(self.now().as_millis().saturating_sub_unsigned(kept));
        if let Err(error) = self.0.accounts.prune_audit(before, FORGET_AT_ONCE).await {
            tracing::warn!(%error, "old entries of the audit log were not deleted");
        }
    }
}
