//! Authentication by API key or `OpenID` Connect token, rate limits, and dashboard sessions.
//!
//! Knows no routes. [`Auth`] verifies a credential; the middleware [`authenticate`] calls it for every
//! request and stores a [`Principal`] in the request's extensions. Handlers reach the engine only through it.

mod api_key;
mod audit_ids;
mod cache;
mod failures;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod keys;
mod middleware;
pub(crate) mod oidc;
mod rate_limit;
mod refresh;
mod session;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul::blob::Keyring;
use longhaul::store::StoreError;
use longhaul::store::accounts::{Accounts, Actor, ApiKey, AuditEntry, KeyDigest, Scopes, Tenant};
use longhaul::{Clock, TenantId, Timestamp};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use api_key::ParsedKey;
use audit_ids::AuditIds;
use cache::{AccountCache, CachedKey};
use failures::FailureLimiter;
pub(crate) use failures::client_address;
pub use keys::{IssuedKey, KeySpec};
pub(crate) use middleware::{PresentedCredential, X_API_KEY, credential};
pub use middleware::{authenticate, authenticate_proxied};
pub(crate) use oidc::parse_url;
pub use oidc::{Issuer, OidcSettings, TokenError, check_issuer};
use oidc::{TokenVerifyError, is_token};
use rate_limit::{RateAllowance, RateExceeded, RateLimiter};
pub(crate) use session::{SESSION_COOKIE, SESSION_LASTS};

/// Domain separation of API key digests from other uses of the server's key.
const KEY_PURPOSE: &[u8] = b"api key";
/// Time for which a cached tenant is used.
const TENANT_FRESH: Duration = Duration::from_secs(30);

/// Authentication settings from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuthSettings {
    /// Requires an API key or a token with every request.
    pub require_keys: bool,
    /// Time for which a tenant with an overdue payment keeps access.
    pub grace: Duration,
    /// Requests per second of a tenant without an individual limit. Unlimited if `None`.
    pub requests_per_s: Option<u32>,
    /// Failed authentication attempts per minute and client address. Unlimited if `None`.
    pub failures_per_minute: Option<u32>,
    /// Set if other replicas share the store and may change keys and tenants.
    pub shared: bool,
}

/// Authenticated caller of a request.
#[derive(Debug, Clone)]
pub struct Principal {
    pub tenant: TenantId,
    pub scopes: Scopes,
    /// Identity for the audit log.
    pub actor: Actor,
    /// Id of the API key, if one was used.
    pub key: Option<String>,
    /// Requests per second allowed for this key.
    pub requests_per_s: Option<u32>,
    /// The tenant's account, at most 30 s old. `None` if the tenant was never created, which is possible
    /// only where no key is required.
    pub account: Option<Arc<Tenant>>,
}

/// Failed authentication.
#[derive(Debug)]
pub enum AuthError {
    NoKey,
    /// The key is unknown, revoked or expired.
    BadKey,
    BadToken(TokenError),
    /// The credential is invalid, as too many others from the same address were.
    TooManyFailures {
        /// Time until the next failed attempt is allowed.
        retry_in: Duration,
    },
    /// The token is valid but names no existing tenant.
    NoTenant {
        /// Name of the tenant claim.
        claim: String,
        /// Value of the claim, if it is a valid tenant id.
        named: Option<TenantId>,
    },
    /// The token cannot be verified, because the issuer's keys are not available.
    NoIssuerKeys,
    Store(StoreError),
}

impl From<TokenVerifyError> for AuthError {
    fn from(error: TokenVerifyError) -> Self {
        match error {
            TokenVerifyError::Bad(error) => Self::BadToken(error),
            TokenVerifyError::NoKeys => Self::NoIssuerKeys,
        }
    }
}

impl From<StoreError> for AuthError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Verifies credentials and manages API keys. Clones are cheap and share all state.
#[derive(Clone)]
pub struct Auth(Arc<Inner>);

struct Inner {
    accounts: Arc<dyn Accounts>,
    keyring: Arc<Keyring>,
    settings: AuthSettings,
    /// Issuer whose tokens are accepted besides API keys.
    issuer: Option<Issuer>,
    clock: Clock,
    cache: AccountCache,
    rates: RateLimiter,
    failures: FailureLimiter,
    audit_ids: AuditIds,
    /// Last use of each key, written to the store every minute. A std mutex, held for a map access and never
    /// across an await.
    used: Mutex<HashMap<String, Timestamp>>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Auth {
    /// Accepts API keys only.
    pub fn new(
        accounts: Arc<dyn Accounts>,
        keyring: Arc<Keyring>,
        clock: Clock,
        settings: AuthSettings,
    ) -> Self {
        Self::with_issuer(accounts, keyring, clock, settings, None)
    }

    /// Accepts API keys and, if an issuer is given, its tokens.
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
            cache: AccountCache::new(settings.shared),
            clock,
            rates: RateLimiter::default(),
            failures: FailureLimiter::default(),
            audit_ids: AuditIds::default(),
            used: Mutex::default(),
        }))
    }

    pub fn accounts(&self) -> &dyn Accounts {
        &*self.0.accounts
    }

    pub fn settings(&self) -> AuthSettings {
        self.0.settings
    }

    /// Returns the time by which keys expire.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Authenticates the credential of a request. Unless keys are required, a request without a valid one acts for
    /// the default tenant with all scopes. An invalid one is then ignored, because many clients always send one.
    pub async fn principal(
        &self,
        presented: Result<Option<&str>, AuthError>,
    ) -> Result<Principal, AuthError> {
        let authenticated = match presented {
            Ok(Some(text)) => self.verified_principal(text).await,
            Ok(None) => Err(AuthError::NoKey),
            Err(error) => Err(error),
        };
        match authenticated {
            Err(AuthError::NoKey | AuthError::BadKey | AuthError::BadToken(_))
                if !self.0.settings.require_keys =>
            {
                self.local_principal().await
            }
            authenticated => authenticated,
        }
    }

    async fn local_principal(&self) -> Result<Principal, AuthError> {
        let tenant = TenantId::default();
        Ok(Principal {
            account: self.tenant(&tenant).await?,
            tenant,
            scopes: Scopes::all(),
            actor: Actor::Local,
            key: None,
            requests_per_s: None,
        })
    }

    /// Authenticates an API key or a token, which must be valid.
    pub async fn verified_principal(&self, text: &str) -> Result<Principal, AuthError> {
        if let Some(issuer) = self.0.issuer.as_ref().filter(|_| is_token(text)) {
            // Boxed, because it may fetch the issuer's keys, and most credentials are API keys.
            return Box::pin(self.token_principal(issuer, text)).await;
        }
        let parsed = ParsedKey::parse(text).ok_or(AuthError::BadKey)?;
        let cached = self.verify(parsed).await?;
        let (key, now) = (&cached.key, self.now());
        if !key.is_valid(now) {
            return Err(AuthError::BadKey);
        }
        if cached.take_use_due(now) {
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

    /// Returns whether a bearer token looks like an API key or a token of the configured issuer, valid or not.
    fn is_ours(&self, token: &str) -> bool {
        api_key::is_key(token) || (self.0.issuer.is_some() && is_token(token))
    }

    /// Authenticates a token. Its tenant must exist, because an issuer cannot create tenants.
    async fn token_principal(&self, issuer: &Issuer, token: &str) -> Result<Principal, AuthError> {
        let oidc::Claims { subject, tenant: named, scopes, .. } = issuer.verify(token).await?;
        let tenant = match &named {
            Some(id) => self.tenant(id).await?,
            None => None,
        };
        let Some(tenant) = tenant else {
            return Err(AuthError::NoTenant { claim: issuer.tenant_claim().to_owned(), named });
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

    /// Returns the key with this secret, whether or not it is still valid.
    async fn verify(&self, parsed: ParsedKey<'_>) -> Result<Arc<CachedKey>, AuthError> {
        let (inner, now) = (&*self.0, self.now());
        let text_hash: [u8; 32] = Sha256::digest(parsed.body).into();
        if let Some(cached) = inner.cache.key(parsed.id, &text_hash, now) {
            return Ok(cached);
        }
        if inner.cache.is_rejected(&text_hash, now) {
            return Err(AuthError::BadKey);
        }
        let read_at = now;
        let found = inner.accounts.key(parsed.id).await?;
        // The same work for an unknown key, so that the response time reveals nothing.
        let message = parsed.body.as_bytes();
        let server_key = found.as_ref().map(|key| key.digest.server_key.as_str());
        let by_its_own = server_key.and_then(|id| inner.keyring.mac_by(id, KEY_PURPOSE, message));
        let digest = by_its_own.unwrap_or_else(|| inner.keyring.mac(KEY_PURPOSE, message));
        let expected = found.as_ref().map_or([0; 32], |key| key.digest.bytes);
        let is_right = bool::from(digest.ct_eq(&expected));
        let Some(key) = found.filter(|_| is_right) else {
            inner.cache.insert_rejected(text_hash, read_at);
            return Err(AuthError::BadKey);
        };
        if key.digest.server_key != inner.keyring.current_id() {
            self.redigest(&key, message).await;
        }
        Ok(inner.cache.insert_key(key, text_hash, read_at))
    }

    /// Digests a key with the current server key on its first use after a rotation, so that the former
    /// server key can be deleted later. A failed write is logged and does not fail the request.
    async fn redigest(&self, key: &ApiKey, message: &[u8]) {
        let digest = self.digest(message);
        if let Err(error) = self.0.accounts.replace_key_digest(&key.id, &digest).await {
            tracing::warn!(key.id = key.id, %error, "cannot update the digest of an API key");
        }
    }

    fn digest(&self, message: &[u8]) -> KeyDigest {
        let keyring = &self.0.keyring;
        let bytes = keyring.mac(KEY_PURPOSE, message);
        KeyDigest { server_key: keyring.current_id().to_owned(), bytes }
    }

    /// Returns a tenant, at most 30 s old. `None` if it was never created.
    pub async fn tenant(&self, id: &TenantId) -> Result<Option<Arc<Tenant>>, StoreError> {
        let now = self.now();
        if let Some(cached) = self.0.cache.tenant(id, now) {
            return Ok(cached.tenant.clone());
        }
        let found = self.0.accounts.tenant(id).await?.map(Arc::new);
        self.0.cache.insert_tenant(id, found.clone(), now);
        Ok(found)
    }

    /// Returns whether the tenant may use the service now. A tenant that was never created may.
    pub fn is_active(&self, tenant: Option<&Tenant>) -> bool {
        tenant.is_none_or(|tenant| tenant.may_use(self.0.settings.grace, self.now()))
    }

    /// Counts a request against the limits of its key and its tenant. `None` if neither has one.
    fn count_request(
        &self,
        caller: &Principal,
    ) -> Option<(u32, Result<RateAllowance, RateExceeded>)> {
        let of_tenant = caller.account.as_ref().and_then(|tenant| tenant.limits.requests_per_s);
        let of_tenant = of_tenant.or(self.0.settings.requests_per_s);
        let now = self.now();
        let mut least: Option<(u32, Result<RateAllowance, RateExceeded>)> = None;
        let callers = [
            ("key", caller.key.as_deref().unwrap_or_default(), caller.requests_per_s),
            ("tenant", caller.tenant.as_str(), of_tenant),
        ];
        for (what, name, per_s) in callers {
            let Some(per_s) = per_s else { continue };
            let counted = self.0.rates.check(&format!("{what} {name}"), per_s, now);
            let is_less = match (&least, &counted) {
                (Some((_, Ok(least))), Ok(left)) => left.remaining < least.remaining,
                (_, _) => true,
            };
            if is_less {
                least = Some((per_s, counted));
            }
            if counted.is_err() {
                break;
            }
        }
        least
    }

    /// Drops a tenant from the cache after a change on this replica.
    pub fn forget_tenant(&self, id: &TenantId) {
        self.0.cache.remove_tenant(id);
    }

    pub fn audit_entry(
        &self,
        by: &AuditContext,
        tenant: &TenantId,
        action: &str,
        target: &str,
        detail: String,
    ) -> AuditEntry {
        let at = self.now();
        AuditEntry {
            id: self.0.audit_ids.next(at),
            at,
            tenant: tenant.clone(),
            actor: by.actor.to_string(),
            action: action.to_owned(),
            target: target.to_owned(),
            detail,
            request_id: by.request_id.clone(),
        }
    }

    fn used(&self) -> std::sync::MutexGuard<'_, HashMap<String, Timestamp>> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Actor and request of an audited action.
#[derive(Debug, Clone)]
pub struct AuditContext {
    pub actor: Actor,
    pub request_id: String,
}

impl AuditContext {
    /// Context of actions that the server takes by itself.
    pub fn server() -> Self {
        Self { actor: Actor::Server, request_id: String::new() }
    }
}

#[cfg(test)]
mod tests;
