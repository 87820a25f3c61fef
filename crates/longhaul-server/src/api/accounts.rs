//! Administration: tenants, API keys and the audit log.

pub(crate) mod audit;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub(crate) mod keys;
pub(crate) mod tenants;

use longhaul::TenantId;
use utoipa_axum::routes;

use crate::api::http::caller::Admin;
use crate::api::http::load_shedding::Class;
use crate::api::http::routes::Routes;
use crate::problem::{Code, Problem, Result};

const NAME_CHARS_MAX: usize = 200;

pub(super) fn router() -> Routes {
    Routes::new()
        .route::<Admin>(Class::Normal, routes!(keys::create_key))
        .route::<Admin>(Class::Normal, routes!(keys::list_keys))
        .route::<Admin>(Class::Normal, routes!(keys::revoke_key))
        .route::<Admin>(Class::Normal, routes!(keys::rotate_key))
        .route::<Admin>(Class::Normal, routes!(tenants::create_tenant))
        .route::<Admin>(Class::Normal, routes!(tenants::list_tenants))
        .route::<Admin>(Class::Normal, routes!(tenants::get_tenant))
        .route::<Admin>(Class::Normal, routes!(tenants::change_tenant))
        .route::<Admin>(Class::Normal, routes!(audit::list_audit))
}

/// Validates a display name or description.
pub(super) fn label(what: &str, text: String) -> Result<String> {
    if text.chars().count() > NAME_CHARS_MAX {
        return Err(Problem::invalid(format_args!(
            "{what} must have at most {NAME_CHARS_MAX} characters"
        )));
    }
    if text.chars().any(char::is_control) {
        return Err(Problem::invalid(format_args!("{what} must not contain control characters")));
    }
    Ok(text)
}

fn tenant_id(text: &str) -> Result<TenantId> {
    TenantId::new(text).map_err(Problem::invalid)
}

fn no_tenant(id: &TenantId) -> Problem {
    Problem::new(Code::TenantNotFound, format!("unknown tenant {:?}", id.as_str()))
}
