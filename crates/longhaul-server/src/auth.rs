//! Who a caller is, what it may do, and how much of it.
//!
//! Nothing here knows a route. [`Auth`] answers for a presented key; [`admit`] asks it for every request
//! and leaves a [`Principal`] for the handlers, which cannot reach the engine without one.

mod admit;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod known;
pub(crate) mod oidc;
mod rate;
mod session;
mod token;
mod upkeep;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul::blob::Keyring;
use longhaul::store::StoreError;
use longhaul::store::accounts::{
    Accounts, Actor, ApiKey, AuditEntry, KeyDigest, NewKey, Scope, Scopes, Tenant,
};
use longhaul::{Clock, TenantId, Timestamp};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use ulid::Ulid;
use zeroize::Zeroizing;

pub(crate) use admit::shown;
pub(crate) use admit::{Shown, X_API_KEY};
pub use admit::{admit, admit_proxied, admit_strangers};
use known::{Known, KnownKey};
pub(crate) use oidc::parse_url;
pub use oidc::{Issuer, OidcSettings, TokenError, examine_issuer};
use oidc::{Unjudged, is_token};
use rate::{Left, Rates, TooFast};
pub(crate) use session::{SESSION_COOKIE, SESSION_LASTS};
use token::{Fresh, Presented};

/// What digests of keys are made for.
const KEY_PURPOSE: &[u8] = b"api key";
/// How long a tenant is believed to be as it was read.
const TENANT_FRESH: Duration = Duration::from_secs(30);

/// What the configuration says about callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuthSettings {
    /// Whether everybody needs a key or a token.
    pub require_keys: bool,
    /// How long a tenant may go on whose payment is due.
    pub grace: Duration,
    /// Requests a second of each tenant that has no limit of its own. None: as many as come.
    pub requests_per_s: Option<u32>,
    /// Whether other processes may change keys and tenants too.
    pub shared: bool,
}

/// Whoever makes a request.
#[derive(Debug, Clone)]
pub struct Principal {
    /// For which tenant.
    pub tenant: TenantId,
    /// What it may do.
    pub scopes: Scopes,
    /// Who it is, for the audit log.
    pub actor: Actor,
    /// The key that it used, if any.
    pub key: Option<String>,
    /// Requests a second that this key may make.
    pub requests_per_s: Option<u32>,
    /// The tenant as it was at most half a minute ago. None if it was never made, which only those are that
    /// need no key.
    pub account: Option<Arc<Tenant>>,
}

/// Why a caller is not let in.
#[derive(Debug)]
pub enum Refusal {
    /// It has no key.
    NoKey,
    /// Its key is none of ours, or has ended.
    BadKey,
    /// Its token is not to be believed.
    BadToken(TokenError),
    /// Its token is good, and names no tenant of ours.
    NoTenant {
        /// The claim that should.
        claim: String,
        /// What it names, if that could be a tenant.
        named: Option<TenantId>,
    },
    /// Its token cannot be judged: the issuer's keys are not known.
    NoIssuerKeys,
    /// Nobody can tell now.
    Store(StoreError),
}

impl From<Unjudged> for Refusal {
    fn from(error: Unjudged) -> Self {
        match error {
            Unjudged::Bad(error) => Self::BadToken(error),
            Unjudged::NoKeys => Self::NoIssuerKeys,
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Knows keys and tenants. Clones are cheap and share everything.
#[derive(Clone)]
pub struct Auth(Arc<Inner>);

struct Inner {
    accounts: Arc<dyn Accounts>,
    keyring: Arc<Keyring>,
    settings: AuthSettings,
    /// Whose tokens are good beside our keys.
    issuer: Option<Issuer>,
    clock: Clock,
    known: Known,
    rates: Rates,
    /// Keys and when they were last used, to be written down now and then. A std mutex: held for a map
    /// access, never across an await.
    used: Mutex<HashMap<String, Timestamp>>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

/// A key that was just made: the only time that its text is there.
#[derive(Debug)]
pub struct MadeKey {
    /// As it is kept.
    pub key: ApiKey,
    /// What its holder presents.
    pub text: Zeroizing<String>,
}

/// What somebody wants a key for.
#[derive(Debug, Clone)]
pub struct KeyWish {
    /// Whose it is to be.
    pub tenant: TenantId,
    /// For people.
    pub name: String,
    /// What it is to be good for.
    pub scopes: Scopes,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// Requests a second that it may make.
    pub requests_per_s: Option<u32>,
}

impl Auth {
    /// Keys and tenants as `accounts` has them; digests are made with the server's keys.
    pub fn new(
        accounts: Arc<dyn Accounts>,
        keyring: Arc<Keyring>,
        clock: Clock,
        settings: AuthSettings,
    ) -> Self {
        Self::with_issuer(accounts, keyring, clock, settings, None)
    }

    /// The same, where tokens of an issuer are good too.
    pub fn with_issuer(
        accounts: Arc<dyn Accounts>,
        keyring: Arc<Keyring>,
        clock: Clock,
        settings: AuthSettings,
        issuer: Option<Issuer>,
    ) -> Self {
        Self(Arc::new(Inner {
            accounts,
            keyring,
            settings,
            issuer,
            known: Known::new(settings.shared),
            clock,
            rates: Rates::default(),
            used: Mutex::default(),
        }))
    }

    /// Where keys and tenants are kept.
    pub fn accounts(&self) -> &dyn Accounts {
        &*self.0.accounts
    }

    /// What the configuration says.
    pub fn settings(&self) -> AuthSettings {
        self.0.settings
    }

    /// The time that keys end by.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Whether a text looks like a key of ours, or like a token of our issuer.
    fn may_know(&self, text: &str) -> bool {
        token::is_ours(text) || (self.0.issuer.is_some() && is_token(text))
    }

    /// Who presents this key or token. Without one: everybody is the tenant of those who have only one,
    /// unless keys are required.
    pub async fn principal(&self, presented: Option<&str>) -> Result<Principal, Refusal> {
        let Some(text) = presented else {
            if self.0.settings.require_keys {
                return Err(Refusal::NoKey);
            }
            let tenant = TenantId::default();
            return Ok(Principal {
                account: self.tenant(&tenant).await?,
                tenant,
                scopes: Scopes::all(),
                actor: Actor::Local,
                key: None,
                requests_per_s: None,
            });
        };
        if let Some(issuer) = self.0.issuer.as_ref().filter(|_| is_token(text)) {
            return self.vouched_for(issuer, text).await;
        }
        let presented = Presented::parse(text).ok_or(Refusal::BadKey)?;
        let known = self.verify(presented).await?;
        let (key, now) = (&known.key, self.now());
        if !key.is_valid(now) {
            return Err(Refusal::BadKey);
        }
        if known.is_to_be_noted(now) {
            self.used().insert(key.id.clone(), now);
        }
        Ok(Principal {
            tenant: key.tenant.clone(),
            scopes: key.scopes,
            actor: Actor::Key(key.id.clone()),
            key: Some(key.id.clone()),
            requests_per_s: key.requests_per_s,
            account: self.tenant(&key.tenant).await?,
        })
    }

    /// Whether a bearer token is meant for us, good or not.
    fn is_ours(&self, token: &str) -> bool {
        token::is_key(token) || (self.0.issuer.is_some() && is_token(token))
    }

    /// Whom the issuer vouches for. It cannot make tenants: those are ours.
    async fn vouched_for(&self, issuer: &Issuer, token: &str) -> Result<Principal, Refusal> {
        let oidc::Claims { subject, tenant: named, scopes, .. } = issuer.judge(token).await?;
        let tenant = match &named {
            Some(id) => self.tenant(id).await?,
            None => None,
        };
        let Some(tenant) = tenant else {
            return Err(Refusal::NoTenant { claim: issuer.tenant_claim().to_owned(), named });
        };
        Ok(Principal {
            tenant: tenant.id.clone(),
            scopes,
            actor: Actor::Subject(subject),
            key: None,
            requests_per_s: None,
            account: Some(tenant),
        })
    }

    /// The key whose secret this is, whether or not it has ended.
    async fn verify(&self, presented: Presented<'_>) -> Result<Arc<KnownKey>, Refusal> {
        let (inner, now) = (&*self.0, self.now());
        let text_hash: [u8; 32] = Sha256::digest(presented.body).into();
        if let Some(known) = inner.known.key(presented.id, &text_hash, now) {
            return Ok(known);
        }
        let read_at = now;
        let found = inner.accounts.key(presented.id).await?;
        // The same work whether or not there is such a key: how long it takes tells nothing.
        let message = presented.body.as_bytes();
        let server_key = found.as_ref().map(|key| key.digest.server_key.as_str());
        let by_its_own = server_key.and_then(|id| inner.keyring.mac_by(id, KEY_PURPOSE, message));
        let digest = by_its_own.unwrap_or_else(|| inner.keyring.mac(KEY_PURPOSE, message));
        let expected = found.as_ref().map_or([0; 32], |key| key.digest.bytes);
        let is_right = bool::from(digest.ct_eq(&expected));
        let Some(key) = found.filter(|_| is_right) else { return Err(Refusal::BadKey) };
        if key.digest.server_key != inner.keyring.current_id() {
            self.redigest(&key, message).await;
        }
        Ok(inner.known.keep_key(key, text_hash, read_at))
    }

    /// After a rotation of the server's keys, a key is digested anew when it is first used, so that the
    /// former server key can go one day. That it could not be written is no reason to refuse the caller.
    async fn redigest(&self, key: &ApiKey, message: &[u8]) {
        let digest = self.digest(message);
        if let Err(error) = self.0.accounts.replace_key_digest(&key.id, &digest).await {
            tracing::warn!(key.id = key.id, %error, "the key's digest could not be renewed");
        }
    }

    fn digest(&self, message: &[u8]) -> KeyDigest {
        let keyring = &self.0.keyring;
        let bytes = keyring.mac(KEY_PURPOSE, message);
        KeyDigest { server_key: keyring.current_id().to_owned(), bytes }
    }

    /// A tenant, as it was at most half a minute ago. None if it was never made, which only those are
    /// that need no key.
    pub async fn tenant(&self, id: &TenantId) -> Result<Option<Arc<Tenant>>, StoreError> {
        let now = self.now();
        if let Some(known) = self.0.known.tenant(id, now) {
            return Ok(known.tenant.clone());
        }
        let found = self.0.accounts.tenant(id).await?.map(Arc::new);
        self.0.known.keep_tenant(id, found.clone(), now);
        Ok(found)
    }

    /// Whether the tenant may use the service now. One that was never made may.
    pub fn is_active(&self, tenant: Option<&Tenant>) -> bool {
        tenant.is_none_or(|tenant| tenant.may_use(self.0.settings.grace, self.now()))
    }

    /// Counts a request of the caller: its key's and its tenant's. None: it has no limit.
    fn pass(&self, caller: &Principal) -> Option<(u32, Result<Left, TooFast>)> {
        let of_tenant = caller.account.as_ref().and_then(|tenant| tenant.limits.requests_per_s);
        let of_tenant = of_tenant.or(self.0.settings.requests_per_s);
        let now = self.now();
        let mut least: Option<(u32, Result<Left, TooFast>)> = None;
        let callers = [
            ("key", caller.key.as_deref().unwrap_or_default(), caller.requests_per_s),
            ("tenant", caller.tenant.as_str(), of_tenant),
        ];
        for (what, name, per_s) in callers {
            let Some(per_s) = per_s else { continue };
            let passed = self.0.rates.pass(&format!("{what} {name}"), per_s, now);
            let is_less = match (&least, &passed) {
                (Some((_, Ok(least))), Ok(left)) => left.remaining < least.remaining,
                (_, _) => true,
            };
            if is_less {
                least = Some((per_s, passed));
            }
            if passed.is_err() {
                break;
            }
        }
        least
    }

    /// Makes a key. None if there is no such tenant.
    pub async fn create_key(
        &self,
        wish: &KeyWish,
        by: &Deed,
    ) -> Result<Option<MadeKey>, StoreError> {
        let (fresh, new) = self.fresh(wish);
        let audit = self.entry(by, &wish.tenant, "key.create", &new.id, describe(wish));
        let made = self.0.accounts.create_key(&new, &audit).await?;
        Ok(made.map(|key| MadeKey { key, text: fresh.text }))
    }

    /// Makes the one key that a server needs to be told of any other, if there is none at all.
    pub async fn create_first_key(&self) -> Result<Option<MadeKey>, StoreError> {
        let wish = KeyWish {
            tenant: TenantId::default(),
            name: "first admin key".to_owned(),
            scopes: [Scope::Admin].into_iter().collect(),
            expires_at: None,
            requests_per_s: None,
        };
        let (fresh, new) = self.fresh(&wish);
        let audit =
            self.entry(&Deed::server(), &wish.tenant, "key.create", &new.id, describe(&wish));
        let made = self.0.accounts.create_first_key(&new, &audit).await?;
        Ok(made.map(|key| MadeKey { key, text: fresh.text }))
    }

    /// Makes a key in the place of another, which is good for `overlap` more. None if there is no such
    /// key, or it has ended.
    pub async fn rotate_key(
        &self,
        id: &str,
        overlap: Duration,
        by: &Deed,
    ) -> Result<Option<MadeKey>, StoreError> {
        let Some(old) = self.0.accounts.key(id).await? else { return Ok(None) };
        let wish = KeyWish {
            tenant: old.tenant.clone(),
            name: old.name.clone(),
            scopes: old.scopes,
            expires_at: old.expires_at,
            requests_per_s: old.requests_per_s,
        };
        let (fresh, new) = self.fresh(&wish);
        let detail = format!("replaced by {}", new.id);
        let audit = self.entry(by, &old.tenant, "key.rotate", id, detail);
        let ends_at = self.now().after(overlap);
        let made = self.0.accounts.rotate_key(id, &new, ends_at, &audit).await?;
        self.0.known.forget_key(id);
        Ok(made.map(|key| MadeKey { key, text: fresh.text }))
    }

    /// Ends a key: here at once, on other replicas within seconds. None if there is no such key.
    pub async fn revoke_key(&self, id: &str, by: &Deed) -> Result<Option<ApiKey>, StoreError> {
        let Some(key) = self.0.accounts.key(id).await? else { return Ok(None) };
        let audit = self.entry(by, &key.tenant, "key.revoke", id, String::new());
        let revoked = self.0.accounts.revoke_key(id, &audit).await;
        self.0.known.forget_key(id);
        revoked
    }

    /// Whatever is remembered of a tenant was changed here.
    pub fn forget_tenant(&self, id: &TenantId) {
        self.0.known.forget_tenant(id);
    }

    /// What is written down about something that is done.
    pub fn entry(
        &self,
        by: &Deed,
        tenant: &TenantId,
        action: &str,
        target: &str,
        detail: String,
    ) -> AuditEntry {
        AuditEntry {
            id: Ulid::generate().to_string(),
            at: self.now(),
            tenant: tenant.clone(),
            actor: by.actor.to_string(),
            action: action.to_owned(),
            target: target.to_owned(),
            detail,
            request_id: by.request_id.clone(),
        }
    }

    fn fresh(&self, wish: &KeyWish) -> (Fresh, NewKey) {
        let fresh = Fresh::generate();
        let body = Presented::parse(&fresh.text).map_or("", |presented| presented.body);
        let new = NewKey {
            id: fresh.id.clone(),
            tenant: wish.tenant.clone(),
            name: wish.name.clone(),
            scopes: wish.scopes,
            digest: self.digest(body.as_bytes()),
            expires_at: wish.expires_at,
            requests_per_s: wish.requests_per_s,
        };
        (fresh, new)
    }

    fn used(&self) -> std::sync::MutexGuard<'_, HashMap<String, Timestamp>> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who does something, and in which request.
#[derive(Debug, Clone)]
pub struct Deed {
    /// Who.
    pub actor: Actor,
    /// In which request.
    pub request_id: String,
}

impl Deed {
    /// What the server does by itself.
    pub fn server() -> Self {
        Self { actor: Actor::Server, request_id: String::new() }
    }
}

fn describe(wish: &KeyWish) -> String {
    format!("{:?}: {:?}", wish.name, wish.scopes)
}

#[cfg(test)]
mod tests;
