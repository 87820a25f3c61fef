//! Requests to addresses that callers name, such as webhooks.
//!
//! Whoever may name a URL may otherwise use the server to reach what only the server can: its own
//! machine, its neighbours, the cloud's metadata. So one [`Policy`] says which addresses may be reached, and
//! it is asked twice: when a URL is taken, to tell its owner at once, and when a connection is made, by the
//! addresses that are really dialled. Only the second is a protection: names change between the two.
//!
//! | may be reached | on which ports |
//! |---|---|
//! | public addresses | 80, 443, and from 1024 on |
//! | networks of `[egress] allow` | any |
//! | everything else | none |
//!
//! A name counts as the worst of its addresses, redirects are answers like others, and proxies of the
//! environment are not asked.

mod client;
mod error;
mod policy;
mod ranges;
mod resolve;
mod response;
#[cfg(test)]
mod tests;

pub use client::{BODY_PREFIX_DEFAULT, Client, EgressRequest};
pub use error::SendError;
pub use policy::{CheckedUrl, Policy, URL_BYTES_MAX, UrlDenied};
pub use resolve::{Resolver, Resolving, SystemResolver};
pub use response::{EgressResponse, RetryAfter};
