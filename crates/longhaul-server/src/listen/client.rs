//! Who sent a request, also behind proxies.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Who sent a request, for limits and logs. Handlers find it in the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// Its address: the peer's, or what a trusted proxy says of the peer's peer.
    pub address: IpAddr,
    /// What it speaks, to us or to that proxy.
    pub scheme: Scheme,
}

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// In clear.
    Http,
    /// In TLS.
    Https,
}

impl Scheme {
    /// As in a URL.
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

/// The networks of proxies that are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies(Arc<[IpNet]>);

impl Proxies {
    /// These networks, each as an address or with the length of its prefix.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        Self(networks.into_iter().collect())
    }

    fn trust(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl Client {
    /// What `headers` say of the client, as far as a trusted proxy said it: proxies append, so the
    /// last address that is not a trusted proxy's is the first that anybody could have made up.
    ///
    /// Where both are there, `X-Forwarded-For` counts: hardly a proxy writes `Forwarded`, and one
    /// that does not lets the client's own pass.
    pub fn of(peer: SocketAddr, scheme: Scheme, headers: &HeaderMap, proxies: &Proxies) -> Self {
        let mut client = Self { address: peer.ip().to_canonical(), scheme };
        if !proxies.trust(client.address) {
            return client;
        }
        let hops = if headers.contains_key(X_FORWARDED_FOR) {
            forwarded_for(headers)
        } else {
            forwarded(headers)
        };
        for Hop { address, scheme } in hops.into_iter().rev() {
            client.scheme = scheme.unwrap_or(client.scheme);
            // Whoever stands behind a word that is no address cannot be known.
            let Some(address) = address else { break };
            client.address = address;
            if !proxies.trust(address) {
                break;
            }
        }
        client
    }
}

/// What one proxy said of whom it was sent to by.
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
    // One word of the nearest proxy, however many stood before it.
    let schemes = values(headers, &X_FORWARDED_PROTO);
    let nearest = schemes.last().and_then(|value| value.rsplit(',').next());
    if let Some(hop) = hops.last_mut() {
        hop.scheme = nearest.and_then(Scheme::parse);
    }
    hops
}

/// RFC 7239.
fn forwarded(headers: &HeaderMap) -> Vec<Hop> {
    let values = values(headers, &FORWARDED);
    // Where a quote stays open, what a client wrote runs into what the proxy added behind it, and
    // nobody can tell them apart.
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

/// What is not text says nothing, and nothing that was said before it can be believed.
fn values(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let texts = headers.get_all(name).iter();
    texts.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// Splits where the separator is not inside of quotes; none if a quote stays open.
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

/// An address, with or without brackets and a port.
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
        let proxies = Proxies::new(networks);
        let Client { address, scheme } =
            Client::of(peer.parse().unwrap(), Scheme::Http, &headers, &proxies);
        format!("{}://{address}", scheme.as_str())
    }

    fn forwarded_for(value: &str) -> String {
        client(PROXY, &[(X_FORWARDED_FOR, value.as_bytes())])
    }

    fn forwarded(value: &str) -> String {
        client(PROXY, &[(FORWARDED, value.as_bytes())])
    }

    #[test]
    fn nobody_but_a_trusted_proxy_is_believed() {
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
    fn last_address_that_no_trusted_proxy_has_is_the_clients() {
        assert_eq!(forwarded_for("203.0.113.7"), "http://203.0.113.7");
        assert_eq!(forwarded_for("1.1.1.1, 203.0.113.7 , 10.9.9.9"), "http://203.0.113.7");
        assert_eq!(forwarded_for("203.0.113.7:4711"), "http://203.0.113.7");
        assert_eq!(forwarded_for("2a00::1"), "http://2a00::1");
        assert_eq!(forwarded_for("[2a00::1]:4711, 2001:db8::9"), "http://2a00::1");
        assert_eq!(forwarded_for("::ffff:203.0.113.7"), "http://203.0.113.7");
        assert_eq!(forwarded_for("10.0.0.7"), "http://10.0.0.7", "from inside");
        let lines: [(HeaderName, &[u8]); 2] =
            [(X_FORWARDED_FOR, b"203.0.113.7"), (X_FORWARDED_FOR, b"10.0.0.8")];
        assert_eq!(client("[::ffff:10.0.0.1]:9", &lines), "http://203.0.113.7");
    }

    #[test]
    fn forwarded_of_the_rfc_is_understood() {
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
    fn scheme_is_what_the_nearest_proxy_says() {
        let with = |proto: &'static [u8]| {
            client(PROXY, &[(X_FORWARDED_FOR, b"203.0.113.7"), (X_FORWARDED_PROTO, proto)])
        };
        assert_eq!(with(b"https"), "https://203.0.113.7");
        assert_eq!(with(b"http, https"), "https://203.0.113.7");
        assert_eq!(with(b"gopher"), "http://203.0.113.7");
    }

    #[test]
    fn clients_own_forwarded_does_not_count_beside_what_the_proxy_says() {
        let fields: [(HeaderName, &[u8]); 2] =
            [(FORWARDED, b"for=1.1.1.1"), (X_FORWARDED_FOR, b"203.0.113.7")];
        assert_eq!(client(PROXY, &fields), "http://203.0.113.7");
    }

    #[test]
    fn what_cannot_be_understood_leaves_the_nearest_proxy() {
        for bad in ["", "unknown", "for=unknown", "1.1.1.1, nonsense", "300.1.1.1", ",", "1.1.1.1,"]
        {
            assert_eq!(forwarded_for(bad), "http://10.0.0.1", "{bad}");
        }
        for bad in ["", "for=_hidden", "for", "for=\"[::1", "for=1.1.1.1, for=unknown", ";;==,"] {
            assert_eq!(forwarded(bad), "http://10.0.0.1", "{bad}");
        }
        assert_eq!(client(PROXY, &[(X_FORWARDED_FOR, b"1.1.1.1,\xff")]), "http://10.0.0.1");
    }

    /// The proxy's own word became a part of the client's, and the client's was believed.
    #[test]
    fn quote_that_stays_open_does_not_hide_what_the_proxy_added() {
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
        fn no_header_is_too_odd(value in "[ -~\\x80-\\xff]{0,40}") {
            for name in [X_FORWARDED_FOR, FORWARDED, X_FORWARDED_PROTO] {
                client(PROXY, &[(name, value.as_bytes())]);
            }
        }
    }
}
