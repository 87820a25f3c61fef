//! For whom a request acts, and whether it may.

use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use longhaul::job::Limits;
use longhaul::store::accounts::{AuditEntry, Scope, TenantLimits};
use longhaul::{Engine, TenantId};

use crate::api::AppState;
use crate::auth::{AuditContext, Auth, Principal, credential};
use crate::problem::{Code, Problem};
use crate::request_id::RequestId;
use crate::secret::Secret;

/// What a handler asks of whoever calls it.
pub(crate) trait Permission: Send {
    /// The scope that the caller's key or token must have.
    const SCOPE: Scope;
    /// Whether the caller's subscription must be active.
    const PAID: bool;
}

macro_rules! needs {
    ($($(#[$doc:meta])* $need:ident: $scope:ident, $paid:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $need;

        impl Permission for $need {
            const SCOPE: Scope = Scope::$scope;
            const PAID: bool = $paid;
        }
    )*};
}

needs! {
    /// Reads jobs.
    Read: Read, true;
    /// Makes work.
    Submit: Submit, true;
    /// Ends work or deletes it, which also those may who do not pay.
    Control: Submit, false;
    /// Looks around: no job is shown.
    Inspect: Read, false;
    /// Runs the server.
    Admin: Admin, false;
}

/// Whoever sent the request. The one place that decides on the tenant: handlers have no other way
/// to the engine, so none of them can forget to ask, and each says what it asks for.
#[derive(Debug)]
pub(crate) struct Caller<N = Read> {
    /// The engine, bound to the caller's tenant.
    pub(crate) engine: Engine,
    /// Who it is.
    pub(crate) principal: Principal,
    auth: Auth,
    request_id: String,
    need: PhantomData<fn() -> N>,
}

impl<N> Caller<N> {
    /// For the audit log: who does it, and in which request.
    pub(crate) fn audit_actor(&self) -> AuditContext {
        AuditContext { actor: self.principal.actor.clone(), request_id: self.request_id.clone() }
    }

    /// Writes down what the caller is about to do to something of its tenant. Before it is done, so that
    /// nothing is ever done without a trace.
    pub(crate) async fn audit(
        &self,
        action: &str,
        target: &str,
        detail: String,
    ) -> Result<(), Problem> {
        let entry = self.entry(action, target, detail);
        Ok(self.auth.accounts().record_audit(&[entry]).await?)
    }

    /// Whether it also has what another handler needs.
    pub(crate) fn may<M: Permission>(&self) -> bool {
        may::<M>(&self.auth, &self.principal).is_ok()
    }

    /// The same caller, acting on what is another tenant's. Only whoever runs the server may: it could
    /// as well make itself a key of that tenant.
    pub(crate) async fn impersonate(mut self, tenant: TenantId) -> Result<Self, Problem> {
        may::<Admin>(&self.auth, &self.principal)?;
        let Some(account) = self.auth.tenant(&tenant).await? else {
            let detail = format!("there is no tenant {:?}", tenant.as_str());
            return Err(Problem::new(Code::TenantNotFound, detail));
        };
        self.engine = self.engine.for_tenant(tenant.clone());
        self.principal.account = Some(account);
        self.principal.tenant = tenant;
        Ok(self)
    }

    /// What is written down with what the caller does to something of its tenant.
    pub(crate) fn entry(&self, action: &str, target: &str, detail: String) -> AuditEntry {
        self.auth.audit_entry(&self.audit_actor(), &self.principal.tenant, action, target, detail)
    }
}

impl<N: Permission> Caller<N> {
    /// For whoever answers late; `headers` are the request's own.
    pub(crate) fn standing(&self, headers: &HeaderMap) -> Authorization<N> {
        self.standing_by(credential(headers))
    }

    /// The same for what was shown in another way.
    pub(crate) fn standing_by(&self, shown: Option<Secret>) -> Authorization<N> {
        Authorization { auth: self.auth.clone(), shown, need: PhantomData }
    }
}

/// What a caller was let in by. A key can be revoked, a token end and a subscription lapse while an
/// answer is held back or goes on, and whoever may ask no more may be told no more either.
#[derive(Debug)]
pub(crate) struct Authorization<N = Read> {
    auth: Auth,
    shown: Option<Secret>,
    need: PhantomData<fn() -> N>,
}

impl<N: Permission> Authorization<N> {
    /// The refusal that the caller would meet if it came now; none as long as it may go on.
    pub(crate) async fn lost(&self) -> Option<Problem> {
        match self.auth.reauthenticate(self.shown.as_ref()).await? {
            Ok(principal) => may::<N>(&self.auth, &principal).err(),
            Err(problem) => Some(problem),
        }
    }
}

/// Whether the caller has what the handler needs.
fn may<N: Permission>(auth: &Auth, principal: &Principal) -> Result<(), Problem> {
    if !principal.scopes.allow(N::SCOPE) {
        let scope = N::SCOPE.as_str();
        let detail = format!("this needs a key or a token with the scope {scope:?}");
        return Err(Problem::new(Code::Forbidden, detail));
    }
    if N::PAID && !auth.is_active(principal.account.as_deref()) {
        let detail = "the tenant's subscription is not active; jobs can still be cancelled and \
                      deleted";
        return Err(Problem::new(Code::SubscriptionInactive, detail));
    }
    Ok(())
}

impl<N: Permission> FromRequestParts<AppState> for Caller<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        // Left there by `auth::authenticate`, which every route with a caller goes through.
        let Some(principal) = parts.extensions.get::<Principal>().cloned() else {
            return Err(Problem::internal("the route does not ask who calls"));
        };
        may::<N>(&state.auth, &principal)?;
        let account = principal.account.as_deref();
        let request_id = parts.extensions.get::<RequestId>().map(RequestId::to_string);
        let engine = state.engine.for_tenant(principal.tenant.clone());
        let engine = engine.for_key(principal.key.as_deref());
        let own = account.and_then(|tenant| own_limits(&tenant.limits, engine.limits()));
        Ok(Self {
            engine: own.map_or_else(|| engine.clone(), |limits| engine.with_limits(limits)),
            principal,
            auth: state.auth.clone(),
            request_id: request_id.unwrap_or_default(),
            need: PhantomData,
        })
    }
}

/// What a tenant's jobs are held to; none if that is what all others are.
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
