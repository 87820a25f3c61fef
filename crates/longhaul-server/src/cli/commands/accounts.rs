//! Commands for tenants, API keys, the audit log and usage.

pub(in crate::cli) mod audit;
pub(in crate::cli) mod keys;
pub(in crate::cli) mod tenants;
pub(in crate::cli) mod usage;
