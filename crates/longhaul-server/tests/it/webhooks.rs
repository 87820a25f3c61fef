//! Webhooks against real sockets, on both stores.

mod deliveries;
mod endpoints;
mod webhook_server;
