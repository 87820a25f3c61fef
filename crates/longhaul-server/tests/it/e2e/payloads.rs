//! Nothing of a payload is left, wherever the server is killed on the way.

mod canary;
mod failpoints;
mod fixture;
mod programs;
mod requests;
/// The stand-ins for clouds that the engine's own tests start.
#[path = "../../../../longhaul/tests/it/blob/servers.rs"]
#[allow(dead_code, reason = "the engine's tests use the rest")]
mod servers;
#[cfg(target_os = "linux")]
mod uploads;
