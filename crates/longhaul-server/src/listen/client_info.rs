//! Client address and scheme, also behind trusted proxies.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Client of a request, for rate limits and logs. Stored in the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientInfo {
    /// Address of the peer, or the one that a trusted proxy reports.
    pub address: IpAddr,
    /// Scheme between the client and this server or the trusted proxy.
    pub scheme: Scheme,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let is = |scheme: &Self| text.trim().eq_ignore_ascii_case(scheme.as_str());
        [Self::Http, Self::Https].into_iter().find(is)
    }
}

/// Networks of proxies whose forwarding headers are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().collect())
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl ClientInfo {
    /// Determines the client from the peer and the forwarding headers of trusted proxies.
    ///
    /// Proxies append, so the last address that does not belong to a trusted proxy is the client's;
    /// everything before it may be forged. `X-Forwarded-For` takes precedence over `Forwarded`, because
    /// most proxies write only the former and pass the client's own `Forwarded` through.
    pub fn of(
        peer: SocketAddr,
        scheme: Scheme,
        headers: &HeaderMap,
        proxies: &TrustedProxies,
    ) -> Self {
        let mut client = Self { address: peer.ip().to_canonical(), scheme };
        if !proxies.contains(client.address) {
            return client;
        }
        let hops = if headers.contains_key(X_FORWARDED_FOR) {
            forwarded_for(headers)
        } else {
            forwarded(headers)
        };
        for Hop { address, scheme } in hops.into_iter().rev() {
            client.scheme = scheme.unwrap_or(client.scheme);
            // Hops before an unparsable address cannot be trusted.
            let Some(address) = address else { break };
            client.address = address;
            if !proxies.contains(address) {
                break;
            }
        }
        client
    }
}

/// One entry of a forwarding header.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hop {
    address: Option<IpAddr>,
    scheme: Option<Scheme>,
}

fn forwarded_for(headers: &HeaderMap) -> Vec<Hop> {
    let addresses = values(headers, &X_FORWARDED_FOR);
    let addresses = addresses.iter().flat_map(|value| value.split(','));
    let mut hops: Vec<Hop> =
        addresses.map(|text| Hop { address: address(text), scheme: None }).collect();
    // Only the nearest proxy's value counts.
    let schemes = values(headers, &X_FORWARDED_PROTO);
    let nearest = schemes.last().and_then(|value| value.rsplit(',').next());
    if let Some(hop) = hops.last_mut() {
        hop.scheme = nearest.and_then(Scheme::parse);
    }
    hops
}

/// Parses `Forwarded` (RFC 7239).
fn forwarded(headers: &HeaderMap) -> Vec<Hop> {
    let values = values(headers, &FORWARDED);
    // With an unterminated quote, the client's text runs into what the proxy appended, and the two
    // cannot be told apart.
    let unknown = || vec![Hop::default()];
    let hops = |value: &String| match split(value, ',') {
        Some(elements) => elements.iter().map(|element| hop(element)).collect(),
        None => unknown(),
    };
    values.iter().flat_map(hops).collect()
}

fn hop(element: &str) -> Hop {
    let mut hop = Hop::default();
    for pair in split(element, ';').unwrap_or_default() {
        let Some((name, value)) = pair.split_once('=') else { continue };
        let value = unquoted(value.trim());
        match name.trim().to_ascii_lowercase().as_str() {
            "for" => hop.address = address(&value),
            "proto" => hop.scheme = Scheme::parse(&value),
            _ => {}
        }
    }
    hop
}

/// Returns a header's values. Bytes that are not UTF-8 are replaced, so that they parse as no address
/// and end the chain of trust.
fn values(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let texts = headers.get_all(name).iter();
    texts.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// Splits at separators outside of quotes. Returns `None` if a quote is not terminated.
fn split(text: &str, separator: char) -> Option<Vec<String>> {
    let (mut parts, mut quoted, mut escaped) = (vec![String::new()], false, false);
    for c in text.chars() {
        if c == separator && !quoted {
            parts.push(String::new());
            continue;
        }
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && quoted && !escaped;
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    (!quoted).then_some(parts)
}

fn unquoted(value: &str) -> String {
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.map_or_else(|| value.to_owned(), |inner| inner.replace('\\', ""))
}

/// Parses an address with optional brackets and port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = bracketed.unwrap_or(text).parse::<IpAddr>().ok();
    let address =
        address.or_else(|| text.parse::<SocketAddr>().ok().map(|with_port| with_port.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use proptest::prelude::*;

    const PROXY: &str = "10.0.0.1:40000";

    fn client(peer: &str, fields: &[(HeaderName, &[u8])]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        let networks = ["10.0.0.0/8", "2001:db8::/32"].map(|text| text.parse().unwrap());
        let proxies = TrustedProxies::new(networks);
        let ClientInfo { address, scheme } =
            ClientInfo::of(peer.parse().unwrap(), Scheme::Http, &headers, &proxies);
        format!("{}://{address}", scheme.as_str())
    }

    fn forwarded_for(value: &str) -> String {
        client(PROXY, &[(X_FORWARDED_FOR, value.as_bytes())])
    }

    fn forwarded(value: &str) -> String {
        client(PROXY, &[(FORWARDED, value.as_bytes())])
    }

    #[test]
    fn forwarding_headers_of_untrusted_peers_are_ignored() {
        for peer in ["192.0.2.1:9", "[::1]:9", "11.0.0.1:9"] {
            let fields: [(HeaderName, &[u8]); 3] = [
                (X_FORWARDED_FOR, b"1.1.1.1"),
                (FORWARDED, b"for=1.1.1.1;proto=https"),
                (X_FORWARDED_PROTO, b"https"),
            ];
            let peers_own = peer.parse::<SocketAddr>().unwrap().ip();
            assert_eq!(client(peer, &fields), format!("http://{peers_own}"));
        }
    }

    #[test]
    fn client_address_is_the_last_one_outside_of_trusted_proxies() {
        assert_eq!(forwarded_for("203.0.113.7"), "http://203.0.113.7");
        assert_eq!(forwarded_for("1.1.1.1, 203.0.113.7 , 10.9.9.9"), "http://203.0.113.7");
        assert_eq!(forwarded_for("203.0.113.7:4711"), "http://203.0.113.7");
        assert_eq!(forwarded_for("2a00::1"), "http://2a00::1");
        assert_eq!(forwarded_for("[2a00::1]:4711, 2001:db8::9"), "http://2a00::1");
        assert_eq!(forwarded_for("::ffff:203.0.113.7"), "http://203.0.113.7");
        assert_eq!(forwarded_for("10.0.0.7"), "http://10.0.0.7", "internal client");
        let lines: [(HeaderName, &[u8]); 2] =
            [(X_FORWARDED_FOR, b"203.0.113.7"), (X_FORWARDED_FOR, b"10.0.0.8")];
        assert_eq!(client("[::ffff:10.0.0.1]:9", &lines), "http://203.0.113.7");
    }

    #[test]
    fn forwarded_header_is_parsed_as_in_rfc_7239() {
        for (value, seen) in [
            ("for=203.0.113.7", "http://203.0.113.7"),
            ("For=\"[2a00::1]:4711\";Proto=HTTPS;by=10.0.0.1", "https://2a00::1"),
            ("for=1.1.1.1;proto=https, for=\"203.0.113.7:80\" ; proto=http", "http://203.0.113.7"),
            ("for=203.0.113.7;proto=https, for=10.0.0.2;proto=http", "https://203.0.113.7"),
            ("for=1.1.1.1, host=\"a,b;for=2.2.2.2\";for=203.0.113.7", "http://203.0.113.7"),
        ] {
            assert_eq!(forwarded(value), seen, "{value}");
        }
    }

    #[test]
    fn client_scheme_is_the_value_of_the_nearest_proxy() {
        let with = |proto: &'static [u8]| {
            client(PROXY, &[(X_FORWARDED_FOR, b"203.0.113.7"), (X_FORWARDED_PROTO, proto)])
        };
        assert_eq!(with(b"https"), "https://203.0.113.7");
        assert_eq!(with(b"http, https"), "https://203.0.113.7");
        assert_eq!(with(b"gopher"), "http://203.0.113.7");
    }

    #[test]
    fn x_forwarded_for_takes_precedence_over_forwarded() {
        let fields: [(HeaderName, &[u8]); 2] =
            [(FORWARDED, b"for=1.1.1.1"), (X_FORWARDED_FOR, b"203.0.113.7")];
        assert_eq!(client(PROXY, &fields), "http://203.0.113.7");
    }

    #[test]
    fn malformed_forwarding_header_yields_the_nearest_proxy() {
        for bad in ["", "unknown", "for=unknown", "1.1.1.1, nonsense", "300.1.1.1", ",", "1.1.1.1,"]
        {
            assert_eq!(forwarded_for(bad), "http://10.0.0.1", "{bad}");
        }
        for bad in ["", "for=_hidden", "for", "for=\"[::1", "for=1.1.1.1, for=unknown", ";;==,"] {
            assert_eq!(forwarded(bad), "http://10.0.0.1", "{bad}");
        }
        assert_eq!(client(PROXY, &[(X_FORWARDED_FOR, b"1.1.1.1,\xff")]), "http://10.0.0.1");
    }

    /// Regression: the proxy's element became part of the client's, and the client's was trusted.
    #[test]
    fn unterminated_quote_does_not_hide_the_element_of_the_proxy() {
        for open in ["for=1.1.1.1;x=\"", "for=1.1.1.1;pro\"to=https", "for=1.1.1.1;x=\"\\"] {
            for added in ["for=203.0.113.7", "for=\"203.0.113.7:80\"", "for=\"[2a00::1]\";by=a"] {
                assert_eq!(forwarded(&format!("{open}, {added}")), "http://10.0.0.1", "{open}");
            }
            let lines: [(HeaderName, &[u8]); 2] =
                [(FORWARDED, open.as_bytes()), (FORWARDED, b"for=203.0.113.7")];
            assert_eq!(client(PROXY, &lines), "http://203.0.113.7", "{open}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_forwarding_headers_do_not_panic(value in "[ -~\\x80-\\xff]{0,40}") {
            for name in [X_FORWARDED_FOR, FORWARDED, X_FORWARDED_PROTO] {
                client(PROXY, &[(name, value.as_bytes())]);
            }
        }
    }
}
