//! The real binary, started as an operator starts it and broken from outside.
//!
//! No test asserts a time. Each waits for something visible from outside: a response, an event, a line, the
//! end of a stream or of a process; what never comes hangs, and the runner ends it.

#[cfg(target_os = "linux")]
mod access;
mod chat;
mod cli;
mod damage;
mod keys;
mod kill;
mod listen;
mod logs;
mod oidc;
mod operations;
mod payloads;
mod process_memory;
#[cfg(target_os = "linux")]
mod programs;
mod proxy;
mod readme;
mod redact;
#[cfg(feature = "render")]
mod render;
#[cfg(target_os = "linux")]
mod replicas;
mod row_security;
mod signals;
mod sockets;
mod submit;
mod tls;
mod watch;
mod webhooks;
