//! The caller of a request: its tenant, and the permission that the handler requires.

use std::marker::PhantomData;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use longhaul::job::Limits;
use longhaul::store::accounts::{Actor, AuditEntry, Scope, TenantLimits};
use longhaul::{Engine, TenantId};
use sha2::{Digest, Sha256};

use crate::api::AppState;
use crate::auth::{AuditContext, Auth, Principal, credential};
use crate::problem::{Code, Problem, Result};
use crate::request_id::RequestId;
use crate::secret::Secret;

/// A permission that a route declares and its handler receives as `Caller<P>`.
pub(crate) trait Permission: Send + 'static {
    const NAME: &str;
    /// Scopes that the caller's API key or token must have, all of them.
    const SCOPES: &[Scope];
    /// True if the tenant's subscription must be active.
    const PAID: bool;
}

macro_rules! permissions {
    ($($(#[$doc:meta])* $permission:ident: [$($scope:ident),+], $paid:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $permission;

        impl Permission for $permission {
            const NAME: &str = stringify!($permission);
            const SCOPES: &[Scope] = &[$(Scope::$scope),+];
            const PAID: bool = $paid;
        }
    )*};
}

permissions! {
    /// Read jobs.
    Read: [Read], true;
    /// Submit, resume and fork jobs.
    Submit: [Submit], true;
    /// Cancel or delete jobs. Allowed without an active subscription.
    Control: [Submit], false;
    /// Register and change webhook endpoints, read signing secrets and resend deliveries. Requires `read`, because an
    /// endpoint receives the results of all jobs of the tenant.
    ManageWebhooks: [Submit, Read], true;
    /// Delete webhook endpoints. Allowed without an active subscription.
    DeleteWebhooks: [Submit, Read], false;
    /// Read kinds, queues, usage and replicas. Exposes no job data.
    Inspect: [Read], false;
    /// Administer the server: tenants, API keys, metrics and the audit log.
    Admin: [Admin], false;
}

/// The authenticated caller of a request, with permission `P`.
///
/// The only way from a handler to an engine that is bound to a tenant, so that no handler can skip
/// the permission check.
#[derive(Debug)]
pub(crate) struct Caller<P = Read> {
    /// The engine, bound to the caller's tenant.
    pub(crate) engine: Engine,
    pub(crate) principal: Principal,
    auth: Auth,
    request_id: Option<RequestId>,
    permission: PhantomData<fn() -> P>,
}

impl<P> Caller<P> {
    /// Returns the actor and the request id for the audit log.
    pub(crate) fn audit_actor(&self) -> AuditContext {
        let request_id = self.request_id.as_ref().map(RequestId::to_string).unwrap_or_default();
        AuditContext { actor: self.principal.actor.clone(), request_id }
    }

    /// Records an action in the audit log. Called before the action, so that no action goes unrecorded.
    pub(crate) async fn audit(&self, action: &str, target: &str, detail: String) -> Result<()> {
        let entry = self.audit_entry(action, target, detail);
        Ok(self.auth.accounts().record_audit(&[entry]).await?)
    }

    /// Builds an audit entry for an action on an object of the caller's tenant.
    pub(crate) fn audit_entry(&self, action: &str, target: &str, detail: String) -> AuditEntry {
        self.auth.audit_entry(&self.audit_actor(), &self.principal.tenant, action, target, detail)
    }

    /// Returns whether the caller also has another permission.
    pub(crate) fn may<M: Permission>(&self) -> bool {
        check_permission::<M>(&self.auth, &self.principal).is_ok()
    }

    /// Switches to another tenant. Requires `Admin`, because an administrator could just as well create
    /// an API key for that tenant.
    pub(crate) async fn impersonate(mut self, tenant: TenantId) -> Result<Self> {
        check_permission::<Admin>(&self.auth, &self.principal)?;
        let Some(account) = self.auth.tenant(&tenant).await? else {
            let detail = format!("unknown tenant {:?}", tenant.as_str());
            return Err(Problem::new(Code::TenantNotFound, detail));
        };
        self.engine = self.engine.for_tenant(tenant.clone());
        self.principal.account = Some(account);
        self.principal.tenant = tenant;
        Ok(self)
    }
}

impl<P: Permission> Caller<P> {
    /// Returns the caller's authorization for later re-checks; `headers` are the request's.
    pub(crate) fn authorization(&self, headers: &HeaderMap) -> Authorization<P> {
        self.authorization_with(credential(headers))
    }

    /// Like [`authorization`](Self::authorization), with a credential that came another way.
    pub(crate) fn authorization_with(&self, credential: Option<Secret>) -> Authorization<P> {
        let (auth, actor) = (self.auth.clone(), self.principal.actor.clone());
        Authorization { auth, actor, credential, permission: PhantomData }
    }
}

/// A caller's authorization that can be checked again.
///
/// An API key can be revoked, a token can expire and a subscription can lapse while a response is delayed
/// or streaming. A caller that lost its authorization must not receive anything that happened since.
#[derive(Debug)]
pub(crate) struct Authorization<P = Read> {
    auth: Auth,
    actor: Actor,
    credential: Option<Secret>,
    permission: PhantomData<fn() -> P>,
}

/// Identifies the callers whose authorization ends at the same time: the SHA-256 of the credential, because the secret
/// itself is not a key of a map, and the actor, because a server that requires no keys ignores a revoked one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CallerId {
    actor: String,
    credential: Option<[u8; 32]>,
}

impl<P: Permission> Authorization<P> {
    pub(crate) fn caller_id(&self) -> CallerId {
        let credential = self.credential.as_ref();
        CallerId {
            actor: self.actor.to_string(),
            credential: credential.map(|secret| Sha256::digest(secret.expose()).into()),
        }
    }

    /// Returns whether the authorization can end. That of a caller without a credential cannot, unless a
    /// subscription is needed: the server requires no keys.
    pub(crate) fn can_end(&self) -> bool {
        self.credential.is_some() || P::PAID
    }

    /// Authenticates and authorizes the caller again. Returns the problem that a new request would get.
    pub(crate) async fn recheck(&self) -> Result<()> {
        match self.auth.reauthenticate(self.credential.as_ref()).await {
            // A revoked key that a server without required keys ignores in new requests.
            Some(Ok(principal)) if principal.actor != self.actor => {
                Err(Problem::new(Code::Unauthorized, "the API key is no longer valid"))
            }
            Some(Ok(principal)) => check_permission::<P>(&self.auth, &principal),
            Some(Err(problem)) => Err(problem),
            None => Ok(()),
        }
    }
}

fn check_permission<P: Permission>(auth: &Auth, principal: &Principal) -> Result<()> {
    if let Some(scope) = P::SCOPES.iter().find(|scope| !principal.scopes.allow(**scope)) {
        let scope = scope.as_str();
        let detail = format!("this operation requires a key or token with scope {scope:?}");
        return Err(Problem::new(Code::Forbidden, detail));
    }
    if P::PAID && !auth.is_active(principal.account.as_deref()) {
        let detail = "the tenant's subscription is not active; jobs can still be cancelled and \
                      deleted";
        return Err(Problem::new(Code::SubscriptionInactive, detail));
    }
    Ok(())
}

/// The permission that the matched route declares, by name.
#[derive(Debug, Clone, Copy)]
struct RoutePermission(&'static str);

/// Middleware that enforces the permission of a route.
pub(super) async fn require<P: Permission>(
    State(auth): State<Auth>,
    mut request: Request,
) -> Result<Request> {
    let Some(principal) = request.extensions().get::<Principal>() else {
        return Err(Problem::internal("the route does not authenticate its callers"));
    };
    check_permission::<P>(&auth, principal)?;
    request.extensions_mut().insert(RoutePermission(P::NAME));
    Ok(request)
}

impl<P: Permission> FromRequestParts<AppState> for Caller<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self> {
        // Inserted by the authentication middleware.
        let Some(principal) = parts.extensions.get::<Principal>().cloned() else {
            return Err(Problem::internal("the route does not authenticate its callers"));
        };
        match parts.extensions.get::<RoutePermission>() {
            Some(RoutePermission(name)) if *name == P::NAME => {}
            Some(RoutePermission(name)) => {
                let cause = format_args!("the route declares {name}, its handler {}", P::NAME);
                return Err(Problem::internal(cause));
            }
            // The dashboard declares permissions with its handlers.
            None => check_permission::<P>(&state.auth, &principal)?,
        }
        let account = principal.account.as_deref();
        let request_id = parts.extensions.get::<RequestId>().cloned();
        let engine = state.engine.for_tenant(principal.tenant.clone());
        let engine = engine.for_key(principal.key.as_deref());
        let own = account.and_then(|tenant| own_limits(&tenant.limits, engine.limits()));
        Ok(Self {
            engine: match own {
                Some(limits) => engine.with_limits(limits),
                None => engine,
            },
            principal,
            auth: state.auth.clone(),
            request_id,
            permission: PhantomData,
        })
    }
}

/// Returns the tenant's limits if they differ from the server's.
fn own_limits(own: &TenantLimits, all: &Limits) -> Option<Limits> {
    let input_bytes_max = own.input_bytes_max.and_then(|bytes| usize::try_from(bytes).ok());
    let limits = Limits {
        input_bytes_max: input_bytes_max.unwrap_or(all.input_bytes_max),
        pending_per_tenant_max: own.pending_max.unwrap_or(all.pending_per_tenant_max),
        payload_bytes_per_tenant_max: own
            .stored_bytes_max
            .unwrap_or(all.payload_bytes_per_tenant_max),
        ..*all
    };
    (limits != *all).then_some(limits)
}
