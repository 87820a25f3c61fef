//! Proxied paths and the kind `http`, against targets on real sockets, on both stores.

mod answers;
mod bodies;
mod browsers;
mod callers;
mod failing;
mod house;
mod keys;
mod secrets;
