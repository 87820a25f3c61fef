//! Egress policy: the addresses and ports that callers' URLs may reach.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use url::{Host, Url};

use super::ranges;

pub const URL_BYTES_MAX: usize = 2_048;

/// First port that any service may use. Those below belong to mail servers, shells and the like, some of
/// which can be attacked with the bytes of an HTTP request.
const OPEN_PORTS_FROM: u16 = 1_024;

/// Permits public addresses and those of the allowed networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    allow: Arc<[IpNet]>,
}

/// URL that passed the policy. A host name is checked again when it is resolved for a connection.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckedUrl {
    url: Url,
    port: u16,
}

/// Reason why the policy denies a URL. For a name it reveals only the address range, so that callers
/// cannot query the internal DNS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlDenied {
    #[error("not a valid URL: {0}")]
    Malformed(String),
    #[error("URL is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    #[error("URL must start with https:// or http://")]
    Scheme,
    /// Credentials would be stored and displayed.
    #[error("URL contains a user name or password")]
    Credentials,
    /// Fragments are never sent.
    #[error("URL contains a fragment (#)")]
    Fragment,
    #[error("port {0} is not allowed; use 80, 443, or {OPEN_PORTS_FROM} and above")]
    Port(u16),
    /// The address is not public.
    #[error("{address} is not a public address ({range}); add it to `egress.allow` to permit it")]
    Address {
        /// As parsed from any of its spellings.
        address: IpAddr,
        /// For example `private`.
        range: &'static str,
    },
    /// One of the addresses of the name is not public.
    #[error(
        "{name} resolves to an address that is not public ({range}); add it to `egress.allow` to \
         permit it"
    )]
    Name { name: String, range: &'static str },
}

/// Addresses that connections on a port may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Public,
    /// Allowed networks only.
    Allowed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DenyReason {
    /// Not public: the name of its range.
    Range(&'static str),
    /// Public, but the port is allowed in the allowed networks only.
    Port,
}

impl Policy {
    /// Permits public addresses and these networks.
    pub fn new(allow: impl IntoIterator<Item = IpNet>) -> Self {
        Self { allow: allow.into_iter().collect() }
    }

    /// Checks a URL without resolving its name.
    pub fn check_url(&self, text: &str) -> Result<CheckedUrl, UrlDenied> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlDenied::TooLong);
        }
        // URL parsers skip these characters differently and may see different hosts.
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(UrlDenied::Malformed(
                "it contains whitespace or control characters".to_owned(),
            ));
        }
        let url = Url::parse(text).map_err(|error| UrlDenied::Malformed(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlDenied::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlDenied::Credentials);
        }
        if url.fragment().is_some() {
            return Err(UrlDenied::Fragment);
        }
        // Percent-encoding may have made it longer.
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(UrlDenied::TooLong);
        }
        let Some(port) = url.port_or_known_default().filter(|_| url.has_host()) else {
            return Err(UrlDenied::Malformed("it has no host".to_owned()));
        };
        let url = CheckedUrl { url, port };
        let reach = url.reach();
        let deny_reason = match url.address() {
            Some(address) => self.deny_reason(address, reach),
            // Without allowed networks, no address of the name can be permitted on this port.
            None if reach == Reach::Allowed && self.allow.is_empty() => Some(DenyReason::Port),
            None => None,
        };
        // No server can listen on port 0.
        let deny_reason = deny_reason.or_else(|| (port == 0).then_some(DenyReason::Port));
        deny_reason.map_or(Ok(()), |deny_reason| Err(url.denied(deny_reason)))?;
        Ok(url)
    }

    /// Returns the first reason against the addresses of a name. One denied address denies the name,
    /// because any of them may be dialled.
    pub(super) fn deny_reason_of_any(
        &self,
        addresses: &[IpAddr],
        reach: Reach,
    ) -> Option<DenyReason> {
        addresses.iter().find_map(|address| self.deny_reason(*address, reach))
    }

    fn deny_reason(&self, address: IpAddr, reach: Reach) -> Option<DenyReason> {
        if self.allows(address) {
            return None;
        }
        match (ranges::special(address), reach) {
            (Some(range), _) => Some(DenyReason::Range(range)),
            (None, Reach::Allowed) => Some(DenyReason::Port),
            (None, Reach::Public) => None,
        }
    }

    /// Checks the address and, if it embeds one, the IPv4 address in it.
    fn allows(&self, address: IpAddr) -> bool {
        let inner = ranges::embedded(address).map(IpAddr::V4);
        let is_in = |network: &IpNet| {
            network.contains(&address) || inner.is_some_and(|inner| network.contains(&inner))
        };
        self.allow.iter().any(is_in)
    }
}

impl CheckedUrl {
    /// Returns the normalized URL.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Returns scheme, host and port, for logs and metrics.
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the address, unless the host is a name. The parser turned all spellings of IPv4, from
    /// 0x7f.1 to 2130706433, into addresses.
    fn address(&self) -> Option<IpAddr> {
        match self.url.host()? {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }

    /// Returns the host if it is a name.
    pub(super) fn name(&self) -> Option<&str> {
        self.url.domain()
    }

    pub(super) fn reach(&self) -> Reach {
        match self.port {
            80 | 443 | OPEN_PORTS_FROM.. => Reach::Public,
            _ => Reach::Allowed,
        }
    }

    pub(super) fn denied(&self, deny_reason: DenyReason) -> UrlDenied {
        match (deny_reason, self.address()) {
            (DenyReason::Port, _) => UrlDenied::Port(self.port),
            (DenyReason::Range(range), Some(address)) => {
                UrlDenied::Address { address: address.to_canonical(), range }
            }
            (DenyReason::Range(range), None) => {
                UrlDenied::Name { name: self.name().unwrap_or_default().to_owned(), range }
            }
        }
    }
}

/// Omits path and query, which are often secret in webhook URLs.
impl fmt::Debug for CheckedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CheckedUrl").field(&self.origin()).finish()
    }
}
