//! What was read of keys and tenants lately.
//!
//! A key that was verified is believed for five minutes, as long as this process hears of changes: it looks
//! for them every two seconds, and when it could not for four, it believes nothing any more and asks the
//! database each time. So a key that was revoked on another replica is refused here within five seconds,
//! whatever breaks.

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
/// How long what is remembered is believed without having heard of changes.
const DEAF_MAX: Duration = Duration::from_secs(4);

/// How often it is written down that a key is used.
const NOTED_EVERY_MS: i64 = 10_000;

/// A key that was verified.
#[derive(Debug)]
pub(super) struct KnownKey {
    pub(super) key: ApiKey,
    /// Not the secret, and of no use without it.
    text_hash: [u8; 32],
    read_at: Timestamp,
    /// When its use was last noted, in milliseconds.
    noted_at: AtomicI64,
}

impl KnownKey {
    /// Whether nobody has noted its use lately.
    pub(super) fn is_to_be_noted(&self, now: Timestamp) -> bool {
        let (now, last) = (now.as_millis(), self.noted_at.load(Ordering::Relaxed));
        let is_due = now.saturating_sub(last) >= NOTED_EVERY_MS;
        if is_due {
            self.noted_at.store(now, Ordering::Relaxed);
        }
        is_due
    }
}

#[derive(Debug)]
pub(super) struct KnownTenant {
    /// None: there is none of that id.
    pub(super) tenant: Option<Arc<Tenant>>,
    read_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct Known {
    keys: Cache<String, Arc<KnownKey>>,
    tenants: Cache<TenantId, Arc<KnownTenant>>,
    /// When changes were last heard of, in milliseconds; the end of time where nobody else makes any.
    heard_at: AtomicI64,
}

impl Known {
    /// `shared`: others may change what is known here.
    pub(super) fn new(shared: bool) -> Self {
        Self {
            keys: Cache::builder().max_capacity(KEYS_MAX).time_to_live(KEY_FRESH).build(),
            tenants: Cache::builder().max_capacity(TENANTS_MAX).build(),
            heard_at: AtomicI64::new(if shared { i64::MIN } else { i64::MAX }),
        }
    }

    /// A key that was verified with this text.
    pub(super) fn key(
        &self,
        id: &str,
        text_hash: &[u8; 32],
        now: Timestamp,
    ) -> Option<Arc<KnownKey>> {
        let known = self.keys.get(id)?;
        let is_fresh = now < known.read_at.after(KEY_FRESH) && !self.is_deaf(now);
        let is_same = bool::from(known.text_hash.ct_eq(text_hash));
        (is_fresh && is_same).then_some(known)
    }

    pub(super) fn keep_key(
        &self,
        key: ApiKey,
        text_hash: [u8; 32],
        read_at: Timestamp,
    ) -> Arc<KnownKey> {
        let id = key.id.clone();
        let noted_at = AtomicI64::new(i64::MIN);
        let known = Arc::new(KnownKey { key, text_hash, read_at, noted_at });
        self.keys.insert(id, Arc::clone(&known));
        known
    }

    /// What was last read of a tenant, if that is fresh.
    pub(super) fn tenant(&self, id: &TenantId, now: Timestamp) -> Option<Arc<KnownTenant>> {
        let known = self.tenants.get(id)?;
        (now < known.read_at.after(TENANT_FRESH)).then_some(known)
    }

    pub(super) fn keep_tenant(
        &self,
        id: &TenantId,
        tenant: Option<Arc<Tenant>>,
        read_at: Timestamp,
    ) {
        self.tenants.insert(id.clone(), Arc::new(KnownTenant { tenant, read_at }));
    }

    pub(super) fn forget_key(&self, id: &str) {
        self.keys.invalidate(id);
    }

    pub(super) fn forget_tenant(&self, id: &TenantId) {
        self.tenants.invalidate(id);
    }

    /// What was changed up to `heard_at` is read anew.
    pub(super) fn hear(&self, changed: &AccountChanges, heard_at: Timestamp) {
        for id in &changed.keys {
            self.forget_key(id);
        }
        for id in &changed.tenants {
            self.forget_tenant(id);
        }
        self.heard_at.fetch_max(heard_at.as_millis(), Ordering::Release);
    }

    fn is_deaf(&self, now: Timestamp) -> bool {
        let heard_at = self.heard_at.load(Ordering::Acquire);
        heard_at != i64::MAX && now >= Timestamp::from_millis(heard_at).after(DEAF_MAX)
    }
}
