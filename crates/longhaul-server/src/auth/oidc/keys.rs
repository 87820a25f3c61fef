//! The issuer's keys as they were last fetched.
//!
//! They are fetched when a token names a key that is not among them, since issuers rotate theirs, and every
//! ten minutes while tokens come, so that a key that was withdrawn goes. An issuer that is down changes
//! nothing for a day.

use std::sync::Arc;
use std::time::Duration;

use longhaul::{Clock, Timestamp};
use tokio::sync::{Mutex, watch};

use super::fetch::Source;
use super::jwk::{Algorithm, Found, KeySet};
use super::{OidcSettings, TokenError, Unjudged};

/// Tokens that name keys nobody has must not make us flood the issuer.
const FETCH_PAUSE: Duration = Duration::from_secs(10);
/// Keys that are older are fetched anew, while they go on being used.
const FRESH: Duration = Duration::from_mins(10);
/// Keys that are older are not used: the issuer may have withdrawn them.
const USABLE: Duration = Duration::from_hours(24);

/// Keys, and since when they are believed.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) keys: Arc<KeySet>,
    /// Another number whenever the keys are others.
    pub(super) edition: u64,
    fetched_at: Timestamp,
}

/// Fetches and keeps keys. Clones are cheap and share everything.
#[derive(Debug, Clone)]
pub(super) struct Keys(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    clock: Clock,
    held: watch::Sender<Option<Held>>,
    /// When they were last asked for, with or without success. Locked while they are: one asks, and
    /// whoever wants the same waits for the answer.
    asked_at: Mutex<Option<Timestamp>>,
}

impl Keys {
    pub(super) fn new(settings: &OidcSettings, clock: Clock) -> Result<Self, String> {
        let source = Source::new(settings)?;
        let (held, asked_at) = (watch::Sender::new(None), Mutex::default());
        Ok(Self(Arc::new(Inner { source, clock, held, asked_at })))
    }

    /// The keys, with the one that a token of this algorithm must be signed with among them.
    pub(super) async fn with(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Held, Unjudged> {
        let held = self.current();
        if let Some(held) = held
            && held.keys.find(id, algorithm) != Found::Nothing
        {
            return Ok(held);
        }
        self.refreshed().await;
        match self.current() {
            None => Err(Unjudged::NoKeys),
            Some(held) if held.keys.find(id, algorithm) == Found::Nothing => {
                Err(TokenError::UnknownKey.into())
            }
            Some(held) => Ok(held),
        }
    }

    /// The keys that are believed now. If they are old, somebody goes to ask for new ones meanwhile.
    pub(super) fn current(&self) -> Option<Held> {
        let now = self.0.clock.now();
        let held = self.0.held.borrow().clone()?;
        if now >= held.fetched_at.after(FRESH) {
            self.refresh();
        }
        (now < held.fetched_at.after(USABLE)).then_some(held)
    }

    /// Asks for the keys in the background, unless somebody does already or did a moment ago.
    pub(super) fn refresh(&self) {
        let is_due = match self.0.asked_at.try_lock() {
            Ok(asked_at) => self.is_due(*asked_at),
            Err(_) => false,
        };
        if is_due {
            let keys = self.clone();
            tokio::spawn(async move { keys.fetch().await });
        }
    }

    /// Returns when the keys have been asked for.
    async fn refreshed(&self) {
        let keys = self.clone();
        // A task of its own: a caller that hangs up must not take the answer from those who wait with it.
        let fetching = tokio::spawn(async move { keys.fetch().await });
        if let Err(error) = fetching.await {
            tracing::error!(%error, "asking the issuer for its keys failed");
        }
    }

    fn is_due(&self, asked_at: Option<Timestamp>) -> bool {
        asked_at.is_none_or(|at| self.0.clock.now() >= at.after(FETCH_PAUSE))
    }

    async fn fetch(&self) {
        let inner = &*self.0;
        let mut asked_at = inner.asked_at.lock().await;
        if !self.is_due(*asked_at) {
            return;
        }
        let began_at = inner.clock.now();
        match inner.source.keys().await {
            Ok(keys) => self.hold(keys, began_at),
            Err(error) => tracing::warn!(error, "the issuer's keys could not be fetched"),
        }
        *asked_at = Some(inner.clock.now());
    }

    fn hold(&self, keys: KeySet, fetched_at: Timestamp) {
        self.0.held.send_modify(|held| {
            let edition = match held {
                Some(held) if *held.keys == keys => held.edition,
                Some(held) => held.edition + 1,
                None => 0,
            };
            *held = Some(Held { keys: Arc::new(keys), edition, fetched_at });
        });
    }

    /// Hears of every time that keys were fetched.
    #[cfg(test)]
    pub(super) fn watch(&self) -> watch::Receiver<Option<Held>> {
        self.0.held.subscribe()
    }
}
