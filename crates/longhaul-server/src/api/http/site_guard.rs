//! Site guard: keeps web pages of other sites away from a server that requires no keys.
//!
//! Every program on the machine may use such a server, and so could every page in a browser on it: by DNS
//! rebinding, where a name of the page's site resolves to 127.0.0.1, or by forms, images and scripts that send
//! requests to the server's address. Browsers name the host that they were sent to in `Host`, and the page
//! that sends a request in `Origin` and `Sec-Fetch-Site`; pages cannot change these headers. Programs send neither
//! `Origin` nor `Sec-Fetch-Site` and are not affected.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::cors::Origins;
use crate::api::{AppState, ProxyRoutes};
use crate::problem::{Code, Problem};

pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
pub(crate) const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Served under every host name, because load balancers and container runtimes probe them by address.
const PROBES: [&str; 2] = ["/livez", "/readyz"];

/// Hosts of pages behind the gateway, so that they have an origin that differs from this server's.
const GATEWAY_SUFFIX: &str = ".gateway.localhost";
/// Longest label of a host name.
const LABEL_BYTES_MAX: usize = 63;

/// Host names without a port, in lower case.
pub type HostNames = Vec<String>;

#[derive(Debug, Clone)]
pub(crate) struct SiteGuard(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    /// Names that the server is reached by, besides loopback names and addresses.
    hosts: HostNames,
    /// Origins whose pages may call the API.
    origins: Origins,
    proxies: ProxyRoutes,
}

impl SiteGuard {
    /// Returns `None` if keys are required, because then a page has no rights without a key.
    pub(crate) fn new(state: &AppState) -> Option<Self> {
        let rules = || Rules {
            hosts: state.hosts.clone(),
            origins: state.origins.clone(),
            proxies: state.proxies.clone(),
        };
        (!state.auth.settings().require_keys).then(|| Self(Arc::new(rules())))
    }
}

/// Middleware that rejects requests which a page of another site may have sent.
pub(crate) async fn guard(
    State(SiteGuard(rules)): State<SiteGuard>,
    request: Request,
) -> Result<Request, Problem> {
    if !PROBES.contains(&request.uri().path()) {
        rules.check(&request)?;
    }
    Ok(request)
}

impl Rules {
    fn check(&self, request: &Request) -> Result<(), Problem> {
        if !self.allows_host(request) || !self.serves_at_host(request) {
            let detail = "a server that requires no keys is reached by loopback names only, such as localhost; \
                          http.hosts allows further names";
            return Err(Problem::new(Code::HostNotAllowed, detail));
        }
        if !self.allows_sender(request) {
            let detail = "pages of other sites cannot use a server that requires no keys; http.cors_origins \
                          allows an origin";
            return Err(Problem::new(Code::CrossSite, detail));
        }
        Ok(())
    }

    /// Checks the `Host` header and the authority of an absolute request target, whichever are present.
    fn allows_host(&self, request: &Request) -> bool {
        let target = request.uri().authority().cloned();
        let mut hosts = request.headers().get_all(HOST).iter().map(authority).peekable();
        let is_named = target.is_some() || hosts.peek().is_some();
        let allows = |host: Option<Authority>| host.is_some_and(|host| self.allows_name(&host));
        is_named && hosts.all(allows) && target.is_none_or(|target| self.allows_name(&target))
    }

    fn allows_name(&self, authority: &Authority) -> bool {
        // An authority with a user name is never in a request that a client sends on purpose.
        if authority.as_str().contains('@') {
            return false;
        }
        let host = authority.host().to_ascii_lowercase();
        is_loopback(&host) || self.hosts.contains(&host)
    }

    /// Returns whether the path is served at the origin of a gateway's pages, if the request was sent to one: the
    /// pages must find nothing of this server there.
    fn serves_at_host(&self, request: &Request) -> bool {
        let kind = host(request).and_then(gateway_kind);
        kind.is_none_or(|kind| {
            let served = self.proxies.kind_at(request.uri().path());
            served.is_some_and(|served| served.eq_ignore_ascii_case(kind))
        })
    }

    /// Checks the page that sent the request, if a page did.
    fn allows_sender(&self, request: &Request) -> bool {
        let headers = request.headers();
        if let Some(origin) = headers.get(ORIGIN)
            && !is_own(request, origin)
        {
            return self.allows_origin(origin);
        }
        match headers.get(SEC_FETCH_SITE) {
            Some(site) if site != "same-origin" && site != "none" => {
                // Following a link starts no job, except at a gateway's path.
                is_navigation(request) && self.proxies.kind_at(request.uri().path()).is_none()
            }
            Some(_) | None => true,
        }
    }

    fn allows_origin(&self, origin: &HeaderValue) -> bool {
        self.origins.iter().any(|allowed| allowed == "*" || allowed == origin)
    }
}

/// Returns the host, with the port of `host`, at which browsers show the pages of a gateway's kind. `None` if `host` is
/// no loopback name, because browsers resolve names under `localhost` by themselves but no others.
pub(crate) fn gateway_host(host: &str, kind: &str) -> Option<String> {
    let authority = host.parse::<Authority>().ok()?;
    let port = authority.port().map_or_else(String::new, |port| format!(":{port}"));
    let is_plain =
        is_loopback(&authority.host().to_ascii_lowercase()) && gateway_kind(host).is_none();
    (is_plain && kind.len() <= LABEL_BYTES_MAX).then(|| format!("{kind}{GATEWAY_SUFFIX}{port}"))
}

/// Returns the kind whose pages are shown at this host.
pub(crate) fn gateway_kind(host: &str) -> Option<&str> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let (kind, suffix) = name.split_at_checked(name.len().checked_sub(GATEWAY_SUFFIX.len())?)?;
    suffix.eq_ignore_ascii_case(GATEWAY_SUFFIX).then_some(kind)
}

fn authority(value: &HeaderValue) -> Option<Authority> {
    Authority::try_from(value.as_bytes()).ok()
}

/// Returns whether browsers resolve this name to the machine itself, or it is an address of the machine itself.
fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = address.parse::<IpAddr>() {
        return address.to_canonical().is_loopback();
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns whether `origin` is the origin that the request was sent to.
pub(crate) fn is_own(request: &Request, origin: &HeaderValue) -> bool {
    let own = host(request);
    own.is_some() && origin.to_str().ok().and_then(without_scheme) == own
}

/// Returns host and port that the request was sent to.
pub(crate) fn host(request: &Request) -> Option<&str> {
    let header = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    header.or_else(|| request.uri().authority().map(Authority::as_str))
}

fn without_scheme(origin: &str) -> Option<&str> {
    origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"))
}

/// Returns whether the user follows a link to a page, for example from a chat message.
fn is_navigation(request: &Request) -> bool {
    let is = |name: HeaderName, word: &str| has(request.headers(), &name, word);
    request.method() == Method::GET
        && is(SEC_FETCH_MODE, "navigate")
        && is(SEC_FETCH_DEST, "document")
}

fn has(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    headers.get(name).is_some_and(|value| value == word)
}
