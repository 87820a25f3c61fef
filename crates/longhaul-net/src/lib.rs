//! Network building blocks without the job engine.
//!
//! - [`egress`]: requests to URLs that callers name, within a policy.
//! - [`http_client`]: HTTP clients without redirects, proxies or retries, for targets that the operator
//!   configures.
//! - [`circuit_breaker`]: stops sending to a target that keeps failing.
//! - [`archive`]: a strict reader for archives from untrusted callers.

pub mod archive;
pub mod circuit_breaker;
pub mod egress;
pub mod http_client;
