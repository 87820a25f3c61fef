//! Request context of a page: caller, session, viewed tenant, query and notice.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use longhaul::TenantId;
use maud::Markup;
use url::form_urlencoded;

use super::components;
use super::error_page::redirect;
use super::layout::{self, Section, Shell, Viewer};
use super::session::Session;
use super::sign_in::display_name;
use crate::api::AppState;
use crate::api::http::caller::{Admin, Caller, Permission, Submit};
use crate::api::http::params::{Pairs, bad};
use crate::problem::{Problem, Result};

/// Query parameter with the tenant that an administrator views.
pub(super) const TENANT: &str = "tenant";
/// Query parameter with the action that the previous request completed.
const DID: &str = "did";
/// Query parameter with the number of jobs that the action changed.
const COUNT: &str = "count";

/// Extractor for pages that need the permission `N`.
#[derive(Debug)]
pub(super) struct PageContext<N> {
    pub(super) caller: Caller<N>,
    pub(super) session: Session,
    own_tenant: TenantId,
    /// The viewed tenant, if it is not the caller's own.
    other: Option<TenantId>,
    /// The query without the parameters that every page has.
    pub(super) query: Vec<(String, String)>,
    notice: Option<String>,
}

impl<N: Permission> FromRequestParts<AppState> for PageContext<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self> {
        let Some(session) = parts.extensions.get::<Session>().cloned() else {
            return Err(Problem::internal("the route has no session middleware"));
        };
        let Pairs(mut query) = Pairs::from_request_parts(parts, state).await?;
        let mut caller = Caller::<N>::from_request_parts(parts, state).await?;
        let mut take = |wanted: &str| {
            let index = query.iter().position(|(name, _)| name == wanted)?;
            Some(query.remove(index).1).filter(|value| !value.is_empty())
        };
        let (tenant, did, count) = (take(TENANT), take(DID), take(COUNT));
        // Forms send empty fields too.
        query.retain(|(_, value)| !value.is_empty());
        let tenant = tenant.map(|text| TenantId::new(text).map_err(bad)).transpose()?;
        let own_tenant = caller.principal.tenant.clone();
        let other = tenant.filter(|tenant| *tenant != caller.principal.tenant);
        if let Some(other) = &other {
            caller = caller.impersonate(other.clone()).await?;
        }
        let notice = did.and_then(|did| notice(&did, count.and_then(|count| count.parse().ok())));
        Ok(Self { caller, session, own_tenant, other, query, notice })
    }
}

impl<N> PageContext<N> {
    /// Renders a page for this viewer.
    pub(super) fn page(&self, title: &str, section: Section, content: &Markup) -> Response {
        let viewer = Viewer {
            name: display_name(&self.caller.principal),
            own_tenant: self.own_tenant.to_string(),
            may_submit: self.may::<Submit>(),
            is_admin: self.may::<Admin>(),
            other_tenant: self.other.as_ref().map(ToString::to_string),
        };
        let notice = self.notice.clone();
        let shell = Shell { title, section, session: &self.session, viewer: Some(viewer), notice };
        layout::page(&shell, content)
    }

    /// Reports whether the viewer has this permission. Pages offer only permitted actions.
    pub(super) fn may<M: Permission>(&self) -> bool {
        self.caller.may::<M>()
    }

    /// Returns a link to another page that keeps the viewed tenant.
    pub(super) fn link(&self, path: &str, query: &[(&str, &str)]) -> String {
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(query);
        if let Some(tenant) = &self.other {
            text.append_pair(TENANT, tenant.as_str());
        }
        let text = text.finish();
        if text.is_empty() { path.to_owned() } else { format!("{path}?{text}") }
    }

    /// Redirects to a page that shows the notice for `did`.
    pub(super) fn done(&self, path: &str, did: &str) -> Response {
        redirect(&self.link(path, &[(DID, did)]))
    }

    /// Returns a query parameter of this page.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the viewed tenant, if it is not the caller's own.
    pub(super) fn other(&self) -> Option<&TenantId> {
        self.other.as_ref()
    }
}

/// Returns the notice for a completed action. The address selects one of these texts and cannot add its own.
fn notice(did: &str, count: Option<u64>) -> Option<String> {
    let jobs = |count: u64| {
        if count == 1 { "1 job".to_owned() } else { format!("{} jobs", components::count(count)) }
    };
    Some(match (did, count) {
        ("cancel", None) => "Job cancelled. A running job stops after its current step.".to_owned(),
        ("resume", None) => "Job queued. It continues after its last finished step.".to_owned(),
        ("fork", None) => "Job forked. This is the new job.".to_owned(),
        ("purge", None) => "Job purged.".to_owned(),
        ("submit", None) => "Job submitted.".to_owned(),
        ("cancel", Some(count)) => {
            format!("Cancelled {}. Running jobs stop after their current step.", jobs(count))
        }
        ("resume", Some(count)) => format!("Resumed {}.", jobs(count)),
        ("purge", Some(count)) => format!("Purged {}.", jobs(count)),
        ("pause", None) => "Queue paused. Running jobs continue.".to_owned(),
        ("go-on", None) => "Queue resumed.".to_owned(),
        ("resend", None) => "Delivery queued.".to_owned(),
        ("test", None) => "Test delivery queued.".to_owned(),
        ("endpoint-on", None) => "Endpoint enabled.".to_owned(),
        ("endpoint-off", None) => "Endpoint disabled. It receives no events.".to_owned(),
        ("endpoint-gone", None) => "Endpoint deleted.".to_owned(),
        ("revoke", None) => "Key revoked. All replicas reject it within five seconds.".to_owned(),
        ("tenant", None) => "Tenant created. Create an API key for it next.".to_owned(),
        ("subscription", None) => "Subscription changed.".to_owned(),
        (_, _) => return None,
    })
}
