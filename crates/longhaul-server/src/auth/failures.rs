//! Limit on failed authentication attempts of a client address.
//!
//! A credential is verified first and counted only if it is invalid. So a valid one is accepted whatever other clients
//! behind the same address do, and the limit cannot be used to lock them out. It is not needed against guessing, because
//! keys have 260 random bits: it makes misconfigured clients wait, and attackers visible.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::Request;

use super::rate_limit::{RateExceeded, RateLimiter};
use super::{Auth, AuthError, Principal};
use crate::listen::ClientInfo;

/// Bits of an IPv6 address that identify a client: providers assign at least a /64 to each.
const CLIENT_PREFIX_BITS: u32 = 64;

/// Failed attempts by address. Separate from the limits of keys and tenants, which addresses must not evict.
#[derive(Debug, Default)]
pub(super) struct FailureLimiter(RateLimiter);

impl Auth {
    /// Counts a failed authentication against the address's limit, and replaces its error above the limit.
    pub(super) fn limit_failures(
        &self,
        authenticated: Result<Principal, AuthError>,
        address: Option<IpAddr>,
    ) -> Result<Principal, AuthError> {
        let is_invalid = matches!(authenticated, Err(AuthError::BadKey | AuthError::BadToken(_)));
        let Some(per_minute) = self.0.settings.failures_per_minute.filter(|_| is_invalid) else {
            return authenticated;
        };
        let FailureLimiter(rates) = &self.0.failures;
        let counted = rates.check_per_minute(&client_of(address), per_minute, self.now());
        let limited = if counted.is_ok() { "false" } else { "true" };
        metrics::counter!("longhaul_auth_failures_total", "limited" => limited).increment(1);
        match counted {
            Ok(_) => authenticated,
            Err(RateExceeded { retry_in }) => Err(AuthError::TooManyFailures { retry_in }),
        }
    }

    /// Authenticates the key or token of a sign-in form, within the limit on failed attempts.
    pub(crate) async fn sign_in(
        &self,
        credential: &str,
        address: Option<IpAddr>,
    ) -> Result<Principal, AuthError> {
        self.limit_failures(self.verified_principal(credential).await, address)
    }
}

/// Returns the client's address. `None` for a request that did not arrive over a connection.
pub(crate) fn client_address(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<ClientInfo>().map(|client| client.address)
}

/// Returns the network that is counted as one client.
fn client_of(address: Option<IpAddr>) -> String {
    match address.map(|address| address.to_canonical()) {
        None => "unknown".to_owned(),
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => {
            let prefix = u128::MAX << (Ipv6Addr::BITS - CLIENT_PREFIX_BITS);
            Ipv6Addr::from_bits(address.to_bits() & prefix).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_clients_are_counted_by_their_64_bit_prefix() {
        let client = |address: &str| client_of(Some(address.parse().unwrap()));
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(client("2001:db8:1:2::"), client("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(client("2001:db8:1:2::"), client("2001:db8:1:3::"));
        assert_eq!(client("192.0.2.7"), "192.0.2.7");
        assert_eq!(client("::ffff:192.0.2.7"), "192.0.2.7");
    }
}
