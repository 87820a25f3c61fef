//! The Longhaul server and command line.

pub mod api;
pub mod auth;
pub mod bench;
pub mod config;
mod dashboard;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod listen;
pub mod logs;
pub mod problem;
pub mod request_id;
pub mod secret;
pub mod secure;
pub mod server;
mod signed;
pub mod webhooks;
