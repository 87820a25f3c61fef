//! Cache of verified and rejected API keys, and of tenants.
//!
//! A verified key is cached for five minutes, as long as this replica learns of changes: it polls for them
//! every 2 s, and when polling has failed for 4 s the cache is bypassed and every request reads the store.
//! So a key that was revoked on another replica is rejected here within 5 s, whatever fails.
//!
//! A text that is no key is remembered for a minute, so that a client that keeps sending it costs no reads of the
//! store. It cannot become one later, because keys are random.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use longhaul::store::accounts::{AccountChanges, ApiKey, Tenant};
use longhaul::{TenantId, Timestamp};
use moka::sync::Cache;
use subtle::ConstantTimeEq as _;

use super::TENANT_FRESH;

const KEYS_MAX: u64 = 10_000;
const TENANTS_MAX: u64 = 10_000;
const KEY_FRESH: Duration = Duration::from_mins(5);
const REJECTED_MAX: u64 = 10_000;
/// Time for which a rejected text is remembered.
const REJECTED_FOR: Duration = Duration::from_mins(1);
/// Time without a successful poll after which the cache is bypassed.
const STALE_AFTER: Duration = Duration::from_secs(4);

/// Interval at which the use of a key is recorded.
const RECORD_USE_EVERY_MS: i64 = 10_000;

/// A verified key.
#[derive(Debug)]
pub(super) struct CachedKey {
    pub(super) key: ApiKey,
    /// SHA-256 of the key's text, so that the secret itself is not kept.
    text_hash: [u8; 32],
    read_at: Timestamp,
    /// Milliseconds since 1970.
    use_recorded_at: AtomicI64,
}

impl CachedKey {
    /// Returns whether the use of this key is due to be recorded; resets the interval if so.
    pub(super) fn take_use_due(&self, now: Timestamp) -> bool {
        let (now, last) = (now.as_millis(), self.use_recorded_at.load(Ordering::Relaxed));
        let is_due = now.saturating_sub(last) >= RECORD_USE_EVERY_MS;
        if is_due {
            self.use_recorded_at.store(now, Ordering::Relaxed);
        }
        is_due
    }
}

#[derive(Debug)]
pub(super) struct CachedTenant {
    /// `None` if there is no tenant with this id.
    pub(super) tenant: Option<Arc<Tenant>>,
    read_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct AccountCache {
    keys: Cache<String, Arc<CachedKey>>,
    /// SHA-256 of rejected texts, and the time of the rejection.
    rejected: Cache<[u8; 32], Timestamp>,
    tenants: Cache<TenantId, Arc<CachedTenant>>,
    /// Time of the last successful poll in milliseconds; `i64::MAX` if no other replica shares the store.
    refreshed_at: AtomicI64,
}

impl AccountCache {
    /// `shared` if other replicas may change keys and tenants.
    pub(super) fn new(shared: bool) -> Self {
        Self {
            keys: Cache::builder().max_capacity(KEYS_MAX).time_to_live(KEY_FRESH).build(),
            rejected: Cache::builder()
                .max_capacity(REJECTED_MAX)
                .time_to_live(REJECTED_FOR)
                .build(),
            tenants: Cache::builder().max_capacity(TENANTS_MAX).build(),
            refreshed_at: AtomicI64::new(if shared { i64::MIN } else { i64::MAX }),
        }
    }

    /// Returns the key if it was verified with this text and the cache is current.
    pub(super) fn key(
        &self,
        id: &str,
        text_hash: &[u8; 32],
        now: Timestamp,
    ) -> Option<Arc<CachedKey>> {
        let cached = self.keys.get(id)?;
        let is_fresh = now < cached.read_at.after(KEY_FRESH) && !self.is_stale(now);
        let is_same = bool::from(cached.text_hash.ct_eq(text_hash));
        (is_fresh && is_same).then_some(cached)
    }

    pub(super) fn insert_key(
        &self,
        key: ApiKey,
        text_hash: [u8; 32],
        read_at: Timestamp,
    ) -> Arc<CachedKey> {
        let id = key.id.clone();
        let use_recorded_at = AtomicI64::new(i64::MIN);
        let cached = Arc::new(CachedKey { key, text_hash, read_at, use_recorded_at });
        self.keys.insert(id, Arc::clone(&cached));
        cached
    }

    /// Returns whether this text was rejected within the last minute.
    pub(super) fn is_rejected(&self, text_hash: &[u8; 32], now: Timestamp) -> bool {
        let rejected_at = self.rejected.get(text_hash);
        rejected_at.is_some_and(|rejected_at| now < rejected_at.after(REJECTED_FOR))
    }

    pub(super) fn insert_rejected(&self, text_hash: [u8; 32], rejected_at: Timestamp) {
        self.rejected.insert(text_hash, rejected_at);
    }

    /// Returns a tenant that was read within the last 30 s.
    pub(super) fn tenant(&self, id: &TenantId, now: Timestamp) -> Option<Arc<CachedTenant>> {
        let cached = self.tenants.get(id)?;
        (now < cached.read_at.after(TENANT_FRESH)).then_some(cached)
    }

    pub(super) fn insert_tenant(
        &self,
        id: &TenantId,
        tenant: Option<Arc<Tenant>>,
        read_at: Timestamp,
    ) {
        self.tenants.insert(id.clone(), Arc::new(CachedTenant { tenant, read_at }));
    }

    pub(super) fn remove_key(&self, id: &str) {
        self.keys.invalidate(id);
    }

    pub(super) fn remove_tenant(&self, id: &TenantId) {
        self.tenants.invalidate(id);
    }

    /// Drops changed entries after a successful poll at `refreshed_at`.
    pub(super) fn apply_changes(&self, changed: &AccountChanges, refreshed_at: Timestamp) {
        for id in &changed.keys {
            self.remove_key(id);
        }
        for id in &changed.tenants {
            self.remove_tenant(id);
        }
        self.refreshed_at.fetch_max(refreshed_at.as_millis(), Ordering::Release);
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        let refreshed_at = self.refreshed_at.load(Ordering::Acquire);
        refreshed_at != i64::MAX && now >= Timestamp::from_millis(refreshed_at).after(STALE_AFTER)
    }
}
