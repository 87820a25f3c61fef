//! Which URLs of callers may be reached.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use url::{Host, Url};

use super::ranges;

/// Bytes of a URL.
pub const URL_BYTES_MAX: usize = 2_048;

/// Ports from here on are for anybody's services; those below are mail, shells and databases, which can be
/// talked to with the bytes of an HTTP request.
const OPEN_PORTS_FROM: u16 = 1_024;

/// Which addresses may be reached: public ones, and those of the allowed networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    allow: Arc<[IpNet]>,
}

/// A URL that nothing is known against. Its name, if it has one, may still lead where nobody may go.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckedUrl {
    url: Url,
    host: UrlHost,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UrlHost {
    /// Judged already.
    Address(IpAddr),
    Name(String),
}

/// Why a URL is not reached. What a name leads to is told by its range alone: callers are not to read the
/// names of our network by asking.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlDenied {
    /// It cannot be read.
    #[error("it is no URL: {0}")]
    Malformed(String),
    /// It is longer than [`URL_BYTES_MAX`].
    #[error("it is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// It is neither http nor https.
    #[error("it must begin with https:// or http://")]
    Scheme,
    /// It has a user or a password in it, which would be stored and shown.
    #[error("it has a user name or a password in it")]
    Credentials,
    /// It has a fragment, which is never sent.
    #[error("it has a '#', and what follows that is never sent")]
    Fragment,
    /// A port that public hosts may not be asked on.
    #[error("port {0} may not be reached: only 80, 443 and those from {OPEN_PORTS_FROM} on")]
    Port(u16),
    /// Its address is not public.
    #[error(
        "{address} is not a public address ({range}): only egress.allow in the server's configuration \
         lets it be reached"
    )]
    Address {
        /// As it was understood.
        address: IpAddr,
        /// What it is instead.
        range: &'static str,
    },
    /// One of the addresses of its name is not public.
    #[error(
        "{name} leads to an address that is not public ({range}): only egress.allow in the server's \
         configuration lets it be reached"
    )]
    Name {
        /// As it was understood.
        name: String,
        /// What its address is instead.
        range: &'static str,
    },
}

/// Where connections on a port may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Public addresses and allowed networks.
    Public,
    /// Allowed networks alone.
    Allowed,
}

/// Why one address may not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DenyReason {
    /// It is not public, but this.
    Range(&'static str),
    /// It is public, and the port is not for such.
    Port,
}

impl Policy {
    /// Public addresses, and these networks.
    pub fn new(allow: impl IntoIterator<Item = IpNet>) -> Self {
        Self { allow: allow.into_iter().collect() }
    }

    /// Everything that can be known of a URL without resolving its name.
    pub fn check_url(&self, text: &str) -> Result<CheckedUrl, UrlDenied> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlDenied::TooLong);
        }
        // A reader of URLs leaves these out, so that two of them may see two hosts.
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(UrlDenied::Malformed(
                "it has blanks or control characters in it".to_owned(),
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
        // What it became by spelling things out is what is sent.
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(UrlDenied::TooLong);
        }
        let no_host = || UrlDenied::Malformed("it has no host".to_owned());
        let port = url.port_or_known_default().ok_or_else(no_host)?;
        // All spellings of IPv4, from 0x7f.1 to 2130706433, are addresses by now.
        let host = match url.host().ok_or_else(no_host)? {
            Host::Ipv4(address) => UrlHost::Address(address.into()),
            Host::Ipv6(address) => UrlHost::Address(address.into()),
            Host::Domain(name) => UrlHost::Name(name.to_owned()),
        };
        let target = CheckedUrl { url, host, port };
        self.check_known(&target)?;
        Ok(target)
    }

    fn check_known(&self, target: &CheckedUrl) -> Result<(), UrlDenied> {
        let reach = target.reach();
        let deny_reason = match &target.host {
            UrlHost::Address(address) => self.deny_reason(*address, reach),
            // It leads to nothing that is allowed if nothing is.
            UrlHost::Name(_) if reach == Reach::Allowed && self.allow.is_empty() => {
                Some(DenyReason::Port)
            }
            UrlHost::Name(_) => None,
        };
        // Nobody can listen there, whatever is allowed.
        let deny_reason = deny_reason.or_else(|| (target.port == 0).then_some(DenyReason::Port));
        deny_reason.map_or(Ok(()), |deny_reason| Err(target.denied(deny_reason)))
    }

    /// What is against the addresses of a name: one that may not be reached is enough, since nothing says
    /// which of them is dialled.
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

    /// By the address itself, or by the one that it stands for.
    fn allows(&self, address: IpAddr) -> bool {
        let inner = ranges::embedded(address).map(IpAddr::V4);
        let is_in = |network: &IpNet| {
            network.contains(&address) || inner.is_some_and(|inner| network.contains(&inner))
        };
        self.allow.iter().any(is_in)
    }
}

impl CheckedUrl {
    /// The URL as it is sent.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Scheme, host and port, without what may be secret: for logs and metrics.
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn host(&self) -> &UrlHost {
        &self.host
    }

    pub(super) fn reach(&self) -> Reach {
        match self.port {
            80 | 443 | OPEN_PORTS_FROM.. => Reach::Public,
            _ => Reach::Allowed,
        }
    }

    pub(super) fn denied(&self, deny_reason: DenyReason) -> UrlDenied {
        match (deny_reason, &self.host) {
            (DenyReason::Port, _) => UrlDenied::Port(self.port),
            (DenyReason::Range(range), UrlHost::Address(address)) => {
                UrlDenied::Address { address: address.to_canonical(), range }
            }
            (DenyReason::Range(range), UrlHost::Name(name)) => {
                UrlDenied::Name { name: name.clone(), range }
            }
        }
    }
}

/// Paths and queries of webhooks are often what makes them secret.
impl fmt::Debug for CheckedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CheckedUrl").field(&self.origin()).finish()
    }
}
