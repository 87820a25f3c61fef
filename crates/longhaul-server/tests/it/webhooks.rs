//! Webhooks against real sockets, on both stores.

mod deliveries;
mod desk;
mod endpoints;
pub(crate) mod receiver;
