//! What holds of heads, and of what proxies say in them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::header::FORWARDED as FORWARDED_NAME;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use httparse::Status;

use super::client::X_FORWARDED_FOR;
use super::heads::Heads;
use super::{Client, Proxies, Scheme};
use crate::fuzzing::Target;

/// A proxy that is trusted, and whom it was asked by.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));

/// Who the client is, by a header that a peer sent.
fn seen(peer: IpAddr, name: &HeaderName, value: &[u8]) -> Option<Client> {
    let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_bytes(value).ok()?)]);
    let networks = ["10.0.0.0/8"].into_iter().filter_map(|text| text.parse().ok());
    Some(Client::of(SocketAddr::new(peer, 9), Scheme::Http, &headers, &Proxies::new(networks)))
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
    // Some proxies put quotes around an address, others do not.
    for added in ["for=203.0.113.7", "for=\"203.0.113.7:80\";proto=http"] {
        check(&FORWARDED_NAME, bytes, added);
    }
}

fn forwarded_for(bytes: &[u8]) {
    check(&X_FORWARDED_FOR, bytes, "203.0.113.7");
}

/// Nobody makes up an address: what a client wrote itself never stands for it once a trusted proxy has
/// added whom it was asked by, and whoever is no trusted proxy is not believed at all.
fn check(name: &HeaderName, bytes: &[u8], added: &str) {
    if let Some(client) = seen(CLIENT, name, bytes) {
        assert_eq!(client, Client { address: CLIENT, scheme: Scheme::Http });
    }
    seen(PROXY, name, bytes);
    let appended = [bytes, b", ", added.as_bytes()].concat();
    if let Some(client) = seen(PROXY, name, &appended) {
        let text = String::from_utf8_lossy(&appended);
        assert!([CLIENT, PROXY].contains(&client.address), "{text:?} made {}", client.address);
        assert_eq!(client.scheme, Scheme::Http, "{text:?}");
    }
}

pub(crate) const HEADS: Target = (
    "heads",
    heads,
    &[
        b"\x09GET / HTTP/1.1\r\nhost: x\r\n\r\nPOST / HTTP/1.1\r\nContent-Length:  3 \r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
        b"\x01\r\nPOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;why=x\r\n\r\n\r\nA\r\n0123456789\r\n0\r\ncontent-length: 4\r\n\r\nPOST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nCONTENT-LENGTH: 1\r\n\r\n",
        b"\x04POST http://x/ HTTP/1.1\ncontent-length: 3\n\nabcPOST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"\x07POST / HTTP/1.0\r\ncontent-length: 0\r\ncontent-length: 0\r\n\r\nGET a:b HTTP/1.1\r\n\r\n",
        b"\x20POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: x\r\n\r\n",
        b"\x05POST / HTTP/1.1\r\ntransfer-encoding:chunked\r\n\r\n0\r\n\r\nGET /\r\n\r\n",
    ],
);

/// A request with two lengths is found, with its number, wherever a reader like hyper's gets to it; none is
/// found among those that it takes for clear; and where the stream is cut makes no difference.
fn heads(bytes: &[u8]) {
    let Some((size, stream)) = bytes.split_first() else { return };
    let mut whole = Heads::default();
    whole.see(stream);
    let mut cut = Heads::default();
    for piece in stream.chunks(usize::from(*size).max(1)) {
        cut.see(piece);
    }
    assert_eq!(cut.found().first(), whole.found().first(), "in pieces of {size}");
    let (clear, two) = reference(stream);
    let found = whole.found().first();
    if two {
        assert_eq!(found, clear + 1, "{:?}", String::from_utf8_lossy(stream));
    } else {
        assert!(found == 0 || found > clear, "{:?}", String::from_utf8_lossy(stream));
    }
}

/// How many requests hyper's reader takes, one after the other, and whether the next has two lengths.
fn reference(stream: &[u8]) -> (u64, bool) {
    let (mut rest, mut clear) = (stream, 0);
    loop {
        let mut fields = [httparse::EMPTY_HEADER; 100];
        let mut request = httparse::Request::new(&mut fields);
        let Ok(Status::Complete(end)) = request.parse(rest) else { return (clear, false) };
        let named = |name: &str| -> Vec<&[u8]> {
            let named =
                request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            named.map(|field| field.value).collect()
        };
        let (codings, lengths) = (named("transfer-encoding"), named("content-length"));
        // hyper takes chunks only, last of all, and only since HTTP/1.1.
        let chunked =
            codings.last().is_some_and(|last| last.to_ascii_lowercase().ends_with(b"chunked"));
        if !codings.is_empty() && (!chunked || request.version == Some(0)) {
            return (clear, false);
        }
        if chunked && !lengths.is_empty() {
            return (clear, true);
        }
        let head = rest;
        rest = rest.get(end..).unwrap_or_default();
        let body = if chunked { chunks(rest) } else { plain(&lengths, rest) };
        let Some(body) = body else { return (clear + u64::from(end < head.len()), false) };
        clear += 1;
        rest = rest.get(body..).unwrap_or_default();
    }
}

/// Bytes of a body whose length is said; none if not all of it is there.
fn plain(lengths: &[&[u8]], rest: &[u8]) -> Option<usize> {
    let Some(first) = lengths.first() else { return Some(0) };
    let digits = !first.is_empty() && first.iter().all(u8::is_ascii_digit);
    if !digits || lengths.iter().any(|other| other != first) {
        return None;
    }
    let length = std::str::from_utf8(first).ok()?.parse::<usize>().ok()?;
    (length <= rest.len()).then_some(length)
}

/// Bytes of a body in chunks; none if not all of it is there, or it is not as it should be.
fn chunks(stream: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let Ok(Status::Complete((line, size))) = httparse::parse_chunk_size(stream.get(at..)?)
        else {
            return None;
        };
        at += line;
        if size == 0 {
            let mut fields = [httparse::EMPTY_HEADER; 100];
            let Ok(Status::Complete((end, _))) =
                httparse::parse_headers(stream.get(at..)?, &mut fields)
            else {
                return None;
            };
            return Some(at + end);
        }
        at = at.checked_add(usize::try_from(size).ok()?)?;
        if stream.get(at..at.checked_add(2)?)? != b"\r\n" {
            return None;
        }
        at += 2;
    }
}
