//! Proxied paths and the kind `http`, against targets on real sockets, on both stores.

mod bodies;
mod browsers;
mod caller_urls;
mod keys;
mod proxy_server;
mod responses;
mod secrets;
mod target_failures;
