//! Tenants, API keys, webhook endpoints and the audit log.
//!
//! A call that is repeated because its response was lost finds the row of the first call, with the time or
//! the id that the first call wrote.

mod api_keys;
mod audit;
mod endpoints;
mod tenants;
