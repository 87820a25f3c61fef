//! A page's own way to the caller: who looks, at which tenant, and what was just done.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use longhaul::TenantId;
use maud::Markup;
use url::form_urlencoded;

use super::layout::{self, Place, Shell, Viewer};
use super::refusal::redirect;
use super::session::Session;
use super::sign_in::whoever;
use crate::api::AppState;
use crate::api::http::caller::{Admin, Caller, Permission, Submit};
use crate::api::http::params::{Pairs, bad};
use crate::problem::Problem;

/// Names the tenant that an administrator looks at.
pub(super) const TENANT: &str = "tenant";
/// Names what was just done.
const DID: &str = "did";
/// To how many.
const COUNT: &str = "count";

/// Whoever looks at a page that needs `N`.
#[derive(Debug)]
pub(super) struct View<N> {
    pub(super) caller: Caller<N>,
    pub(super) session: Session,
    /// The tenant that is looked at instead of the viewer's own.
    other: Option<TenantId>,
    /// The query, without what every page knows.
    pub(super) query: Vec<(String, String)>,
    notice: Option<String>,
}

impl<N: Permission> FromRequestParts<AppState> for View<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let Some(session) = parts.extensions.get::<Session>().cloned() else {
            return Err(Problem::internal("the route does not ask who looks"));
        };
        let Pairs(mut query) = Pairs::from_request_parts(parts, state).await?;
        let mut caller = Caller::<N>::from_request_parts(parts, state).await?;
        let mut taken = |wanted: &str| {
            let place = query.iter().position(|(name, _)| name == wanted)?;
            Some(query.remove(place).1).filter(|value| !value.is_empty())
        };
        let (tenant, did, count) = (taken(TENANT), taken(DID), taken(COUNT));
        // What a form sends for fields that were left empty.
        query.retain(|(_, value)| !value.is_empty());
        let tenant = tenant.map(|text| TenantId::new(text).map_err(bad)).transpose()?;
        let other = tenant.filter(|tenant| *tenant != caller.principal.tenant);
        if let Some(other) = &other {
            caller = caller.impersonate(other.clone()).await?;
        }
        let notice = did.and_then(|did| notice(&did, count.and_then(|count| count.parse().ok())));
        Ok(Self { caller, session, other, query, notice })
    }
}

impl<N> View<N> {
    /// A page for this viewer.
    pub(super) fn page(&self, title: &str, place: Place, content: &Markup) -> Response {
        let viewer = Viewer {
            name: whoever(&self.caller.principal),
            may_submit: self.may::<Submit>(),
            is_admin: self.may::<Admin>(),
            other_tenant: self.other.as_ref().map(ToString::to_string),
        };
        let notice = self.notice.clone();
        let shell = Shell { title, place, session: &self.session, viewer: Some(viewer), notice };
        layout::page(&shell, content)
    }

    /// Whether the viewer may do what needs this. What it may not is not offered.
    pub(super) fn may<M: Permission>(&self) -> bool {
        self.caller.may::<M>()
    }

    /// An address of ours, on which the same tenant is looked at.
    pub(super) fn link(&self, path: &str, query: &[(&str, &str)]) -> String {
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(query);
        if let Some(tenant) = &self.other {
            text.append_pair(TENANT, tenant.as_str());
        }
        let text = text.finish();
        if text.is_empty() { path.to_owned() } else { format!("{path}?{text}") }
    }

    /// Back to a page that says what was done.
    pub(super) fn done(&self, path: &str, did: &str) -> Response {
        redirect(&self.link(path, &[(DID, did)]))
    }

    /// A parameter of this page.
    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The tenant that is looked at, if it is not the viewer's own.
    pub(super) fn other(&self) -> Option<&TenantId> {
        self.other.as_ref()
    }
}

/// What a page says of what was just done. Only these words come from an address.
fn notice(did: &str, count: Option<u64>) -> Option<String> {
    let jobs = |count: u64| if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") };
    Some(match (did, count) {
        ("cancel", None) => "The job is cancelled, or was asked to stop.".to_owned(),
        ("resume", None) => {
            "The job is back in line and goes on after its last finished step.".to_owned()
        }
        ("fork", None) => "This is the new job.".to_owned(),
        ("purge", None) => "The job is deleted.".to_owned(),
        ("submit", None) => "The job is submitted.".to_owned(),
        ("cancel", Some(count)) => format!("Cancelled or asked to stop: {}.", jobs(count)),
        ("resume", Some(count)) => format!("Put back in line: {}.", jobs(count)),
        ("purge", Some(count)) => format!("Deleted: {}.", jobs(count)),
        ("pause", None) => "The queue is paused. Its running jobs go on.".to_owned(),
        ("go-on", None) => "The queue's jobs go on.".to_owned(),
        ("resend", None) => "The delivery is under way again.".to_owned(),
        ("test", None) => "A test is under way to the endpoint.".to_owned(),
        ("endpoint-on", None) => "The endpoint is told of events again.".to_owned(),
        ("endpoint-off", None) => {
            "The endpoint is told of nothing until it is switched on.".to_owned()
        }
        ("endpoint-gone", None) => "The endpoint is deleted.".to_owned(),
        ("revoke", None) => {
            "The key has ended. Every replica refuses it within five seconds.".to_owned()
        }
        ("tenant", None) => "The tenant is made. It needs a key.".to_owned(),
        ("subscription", None) => "The tenant's subscription is changed.".to_owned(),
        (_, _) => return None,
    })
}
