//! Cache of the issuer's keys.
//!
//! Keys are fetched when a token names an unknown one, because issuers rotate their keys, and every ten minutes
//! while tokens arrive, so that withdrawn keys are dropped. During an outage of the issuer the cached keys are
//! used for up to a day.

use std::sync::Arc;
use std::time::Duration;

use longhaul::{Clock, Timestamp};
use tokio::sync::{Mutex, watch};

use super::issuer_client::IssuerClient;
use super::jwk::{Algorithm, KeyLookup, KeySet};
use super::{OidcSettings, TokenError, TokenVerifyError};

/// Minimum interval between fetches, so that tokens with unknown key ids cannot flood the issuer.
const FETCH_PAUSE: Duration = Duration::from_secs(10);
/// Older keys are fetched again in the background while they stay in use.
const FRESH: Duration = Duration::from_mins(10);
/// Older keys are not used, because the issuer may have withdrawn them.
const USABLE: Duration = Duration::from_hours(24);

/// Fetched keys.
#[derive(Debug, Clone)]
pub(super) struct CachedKeySet {
    pub(super) keys: Arc<KeySet>,
    /// Changes whenever the keys change.
    pub(super) edition: u64,
    fetched_at: Timestamp,
}

/// Fetches and caches keys. Clones are cheap and share all state.
#[derive(Debug, Clone)]
pub(super) struct KeySetCache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: IssuerClient,
    clock: Clock,
    cached: watch::Sender<Option<CachedKeySet>>,
    /// Time of the last fetch, successful or not. Locked during a fetch, so that concurrent callers share one.
    attempted_at: Mutex<Option<Timestamp>>,
}

impl KeySetCache {
    pub(super) fn new(settings: &OidcSettings, clock: Clock) -> Result<Self, String> {
        let source = IssuerClient::new(settings)?;
        let (cached, attempted_at) = (watch::Sender::new(None), Mutex::default());
        Ok(Self(Arc::new(Inner { source, clock, cached, attempted_at })))
    }

    /// Returns the keys, fetching them if the token's key is not among them.
    pub(super) async fn with(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<CachedKeySet, TokenVerifyError> {
        if let Some(key_set) = self.current()
            && key_set.keys.find(id, algorithm) != KeyLookup::Missing
        {
            return Ok(key_set);
        }
        self.fetch_now().await;
        match self.current() {
            None => Err(TokenVerifyError::NoKeys),
            Some(key_set) if key_set.keys.find(id, algorithm) == KeyLookup::Missing => {
                Err(TokenError::UnknownKey.into())
            }
            Some(key_set) => Ok(key_set),
        }
    }

    /// Returns the usable keys, and starts a background fetch if they are old.
    pub(super) fn current(&self) -> Option<CachedKeySet> {
        let now = self.0.clock.now();
        let key_set = self.0.cached.borrow().clone()?;
        if now >= key_set.fetched_at.after(FRESH) {
            self.refresh();
        }
        (now < key_set.fetched_at.after(USABLE)).then_some(key_set)
    }

    /// Fetches the keys in the background, unless a fetch is running or was attempted recently.
    pub(super) fn refresh(&self) {
        let is_due = match self.0.attempted_at.try_lock() {
            Ok(attempted_at) => self.is_due(*attempted_at),
            Err(_) => false,
        };
        if is_due {
            let keys = self.clone();
            tokio::spawn(async move { keys.fetch().await });
        }
    }

    /// Waits for a fetch.
    async fn fetch_now(&self) {
        let keys = self.clone();
        // A separate task, so that a caller that disconnects does not cancel the fetch for other waiters.
        let fetching = tokio::spawn(async move { keys.fetch().await });
        if let Err(error) = fetching.await {
            tracing::error!(%error, "the fetch of the issuer's keys panicked");
        }
    }

    fn is_due(&self, attempted_at: Option<Timestamp>) -> bool {
        attempted_at.is_none_or(|at| self.0.clock.now() >= at.after(FETCH_PAUSE))
    }

    async fn fetch(&self) {
        let inner = &*self.0;
        let mut attempted_at = inner.attempted_at.lock().await;
        if !self.is_due(*attempted_at) {
            return;
        }
        let began_at = inner.clock.now();
        match inner.source.keys().await {
            Ok(keys) => self.store(keys, began_at),
            Err(error) => tracing::warn!(error, "cannot fetch the issuer's keys"),
        }
        *attempted_at = Some(inner.clock.now());
    }

    fn store(&self, keys: KeySet, fetched_at: Timestamp) {
        self.0.cached.send_modify(|cached| {
            let edition = match cached {
                Some(cached) if *cached.keys == keys => cached.edition,
                Some(cached) => cached.edition + 1,
                None => 0,
            };
            *cached = Some(CachedKeySet { keys: Arc::new(keys), edition, fetched_at });
        });
    }

    /// Notifies of every fetch.
    #[cfg(test)]
    pub(super) fn watch(&self) -> watch::Receiver<Option<CachedKeySet>> {
        self.0.cached.subscribe()
    }
}
