//! Server tests: in process, on real sockets (`listen`, `server`), and with the real binary (`cli`, `e2e`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod api;
mod chat;
mod cli;
mod dashboard;
mod durations;
mod e2e;
mod fuzzing;
mod harness;
mod listen;
mod problem;
mod proxy;
mod server;
mod webhooks;
