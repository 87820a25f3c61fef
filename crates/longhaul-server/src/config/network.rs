//! What stands between the server and the network.

use std::net::IpAddr;

use axum::http::{HeaderValue, Uri};
use ipnet::IpNet;

use super::check::Check;
use super::error::ConfigError;
use super::value::Entry;
use crate::api::Origins;
use crate::listen::{TlsFiles, TrustedProxies};
use longhaul_net::egress::Policy;

/// A certificate without its key is a mistake, and so is a key without its certificate.
#[expect(clippy::option_option, reason = "none is wrong, some none is HTTP in clear")]
pub(super) fn tls(check: &mut Check) -> Option<Option<TlsFiles>> {
    let text = |entry: &Entry, key: &str| entry.text(key).map(str::to_owned);
    let (cert, key) = (check.read("tls.cert", text), check.read("tls.key", text));
    let (cert, key) = (cert?, key?);
    let lone = match (cert.is_empty(), key.is_empty()) {
        (true, true) => return Some(None),
        (false, false) => return Some(Some(TlsFiles { cert: cert.into(), key: key.into() })),
        (false, true) => ("tls.cert", "it needs `tls.key`, the file with its key"),
        (true, false) => ("tls.key", "it needs `tls.cert`, the file with its certificate"),
    };
    let (given, why) = lone;
    check.read(given, |entry, key| Err(entry.refused(key, why)))
}

/// A list in brackets, or from the environment one with commas.
fn items(entry: &Entry, key: &str) -> Result<Vec<(Entry, String)>, ConfigError> {
    if let Ok(text) = entry.text(key) {
        let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
        return Ok(texts.map(|text| (entry.clone(), text.to_owned())).collect());
    }
    let one = |item: &Entry| Ok((item.clone(), item.text(key)?.to_owned()));
    entry.list(key)?.iter().map(one).collect()
}

pub(super) fn proxies(entry: &Entry, key: &str) -> Result<TrustedProxies, ConfigError> {
    networks(entry, key).map(TrustedProxies::new)
}

pub(super) fn egress(entry: &Entry, key: &str) -> Result<Policy, ConfigError> {
    networks(entry, key).map(Policy::new)
}

fn networks(entry: &Entry, key: &str) -> Result<Vec<IpNet>, ConfigError> {
    let network = |(item, text): (Entry, String)| {
        let lone = || text.parse::<IpAddr>().map(IpNet::from);
        text.parse::<IpNet>().or_else(|_| lone()).map_err(|_| {
            item.wrong(key, "networks or addresses, such as [\"10.0.0.0/8\", \"::1\"]")
        })
    };
    items(entry, key)?.into_iter().map(network).collect()
}

pub(super) fn origins(entry: &Entry, key: &str) -> Result<Origins, ConfigError> {
    let origin = |(item, text): (Entry, String)| {
        let value = HeaderValue::from_str(&text).ok().filter(|_| text == "*" || is_origin(&text));
        value.ok_or_else(|| {
            let expected =
                "origins as browsers send them, such as [\"https://app.example\"], or \"*\"";
            item.wrong(key, expected)
        })
    };
    items(entry, key)?.into_iter().map(origin).collect()
}

/// A scheme, a host and perhaps a port, in small letters and with nothing behind them: a browser
/// compares nothing else.
fn is_origin(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.authority()) else { return false };
    text == format!("{scheme}://{host}").to_ascii_lowercase() && !host.as_str().contains('@')
}
