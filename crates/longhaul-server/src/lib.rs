//! The Longhaul server and command line.

pub mod api;
pub mod auth;
pub mod bench;
pub mod config;
mod dashboard;
pub mod encoding;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hmac_signature;
mod jobs;
pub mod listen;
pub mod logs;
pub mod problem;
pub mod request_id;
pub mod secret;
pub mod security_headers;
pub mod server;
mod to_wire;
pub mod webhooks;
