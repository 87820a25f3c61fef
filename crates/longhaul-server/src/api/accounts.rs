//! Tenants, their keys, and who did what: for whoever runs the server.

pub(crate) mod audit;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub(crate) mod keys;
pub(crate) mod tenants;

use longhaul::TenantId;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::problem::{Code, Problem};

/// Characters of what people call a key or a tenant.
const NAME_CHARS_MAX: usize = 200;

pub(super) fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(keys::create_key, keys::list_keys))
        .routes(routes!(keys::revoke_key))
        .routes(routes!(keys::rotate_key))
        .routes(routes!(tenants::create_tenant, tenants::list_tenants))
        .routes(routes!(tenants::get_tenant, tenants::change_tenant))
        .routes(routes!(audit::list_audit))
}

fn invalid(reason: impl std::fmt::Display) -> Problem {
    Problem::new(Code::Validation, reason.to_string())
}

/// What people call something.
pub(super) fn label(what: &str, text: String) -> Result<String, Problem> {
    if text.chars().count() > NAME_CHARS_MAX {
        return Err(invalid(format_args!("{what} has at most {NAME_CHARS_MAX} characters")));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid(format_args!("{what} must not have control characters")));
    }
    Ok(text)
}

fn tenant_id(text: &str) -> Result<TenantId, Problem> {
    TenantId::new(text).map_err(invalid)
}

fn no_tenant(id: &TenantId) -> Problem {
    Problem::new(Code::TenantNotFound, format!("there is no tenant {:?}", id.as_str()))
}
