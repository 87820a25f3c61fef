//! Accounts: tenants, API keys, webhook endpoints and the audit log.

mod api_keys;
pub(crate) mod audit;
mod endpoints;
mod tenants;
