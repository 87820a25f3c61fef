//! Connections to Postgres: pool, sessions, statements, batching and notifications.

pub(super) mod batcher;
pub(super) mod columns;
pub(super) mod database;
pub(super) mod dedicated;
pub(super) mod error;
pub(super) mod notify;
pub(super) mod params;
pub(super) mod sessions;
mod time;
pub(super) mod timeouts;
pub(super) mod url;
