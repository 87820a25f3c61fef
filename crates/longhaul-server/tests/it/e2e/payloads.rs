//! Nothing of a payload is left, wherever the server is killed on the way.

mod canary;
mod case;
mod points;
mod requests;
mod running;
/// The stand-ins for clouds that the engine's own tests start.
#[path = "../../../../longhaul/tests/it/blob/servers.rs"]
#[allow(dead_code, reason = "the engine's tests use the rest")]
mod servers;
