//! Commands for webhook endpoints and deliveries.

pub(in crate::cli) mod deliveries;
pub(in crate::cli) mod endpoints;
pub(in crate::cli) mod listen;
