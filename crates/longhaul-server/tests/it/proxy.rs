//! Proxied paths and the kind `http`, against targets on real sockets, on both stores.

mod answers;
mod bodies;
mod browsers;
mod callers;
mod failing;
mod keys;
mod proxy_server;
mod secrets;
