//! Properties of the parsers of forwarding headers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::header::FORWARDED as FORWARDED_NAME;
use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::client_info::X_FORWARDED_FOR;
use super::{ClientInfo, Scheme, TrustedProxies};
use crate::fuzzing::Target;

/// A trusted proxy and its client.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));

/// Returns the client for one header that a peer sent.
fn client_of(peer: IpAddr, name: &HeaderName, value: &[u8]) -> Option<ClientInfo> {
    let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_bytes(value).ok()?)]);
    let networks = ["10.0.0.0/8"].into_iter().filter_map(|text| text.parse().ok());
    Some(ClientInfo::of(
        SocketAddr::new(peer, 9),
        Scheme::Http,
        &headers,
        &TrustedProxies::new(networks),
    ))
}

pub(crate) const FORWARDED: Target = (
    "forwarded",
    forwarded,
    &[
        b"for=1.1.1.1;proto=https",
        b"For=\"[2a00::1]:4711\";Proto=HTTPS;by=10.0.0.1",
        b"for=1.1.1.1, host=\"a,b;for=2.2.2.2\";for=10.0.0.9",
        b"for=\"_hidden\\\"\", for=unknown",
        b";;==,",
    ],
);

pub(crate) const FORWARDED_FOR: Target = (
    "x-forwarded-for",
    forwarded_for,
    &[
        b"1.1.1.1, 203.0.113.9 , 10.9.9.9",
        b"[2a00::1]:4711",
        b"::ffff:1.2.3.4,",
        b"unknown",
        b"\"1.1.1.1\"",
    ],
);

fn forwarded(bytes: &[u8]) {
    // Proxies differ in whether they quote the address.
    for added in ["for=203.0.113.7", "for=\"203.0.113.7:80\";proto=http"] {
        check(&FORWARDED_NAME, bytes, added);
    }
}

fn forwarded_for(bytes: &[u8]) {
    check(&X_FORWARDED_FOR, bytes, "203.0.113.7");
}

/// A client cannot forge its address: its own header never overrides the element that a trusted proxy
/// appends, and headers of untrusted peers are ignored.
fn check(name: &HeaderName, bytes: &[u8], added: &str) {
    if let Some(client) = client_of(CLIENT, name, bytes) {
        assert_eq!(client, ClientInfo { address: CLIENT, scheme: Scheme::Http });
    }
    client_of(PROXY, name, bytes);
    let appended = [bytes, b", ", added.as_bytes()].concat();
    if let Some(client) = client_of(PROXY, name, &appended) {
        let text = String::from_utf8_lossy(&appended);
        assert!([CLIENT, PROXY].contains(&client.address), "{text:?} made {}", client.address);
        assert_eq!(client.scheme, Scheme::Http, "{text:?}");
    }
}
