//! Requests to URLs that callers name, such as webhooks.
//!
//! Without a policy, a caller could use the server to reach addresses that only the server can reach: its
//! own machine, its neighbours, the cloud's metadata service. So a [`Policy`] decides which addresses may
//! be reached, and it is checked twice: when a URL is submitted, to reject it early, and when a connection
//! is opened, with the addresses that are really dialled. Only the second check protects, because names
//! can change between the two.
//!
//! | address | ports |
//! |---|---|
//! | public | 80, 443, and from 1024 |
//! | in a network of `[egress] allow` | all |
//! | other | none |
//!
//! A name is denied if any of its addresses is. Redirects are not followed, and proxies from the
//! environment are ignored.

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
pub use response::{EgressResponse, RetryAfter};
