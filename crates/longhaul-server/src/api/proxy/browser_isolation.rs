//! Isolation of upstream pages in browsers.
//!
//! A page that is served from this server's origin could use the server as the person who views it: with a dashboard
//! session, or with all rights where no keys are required. So upstream pages get another origin. Where no keys are
//! required, a browser on the same machine is redirected to a name under `localhost`, where it finds only this upstream
//! ([`site_guard`](crate::api::http::site_guard)). Elsewhere the page is sandboxed.

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

use super::ProxyRoutes;
use crate::api::AppState;
use crate::api::http::site_guard::{self, SEC_FETCH_DEST, SEC_FETCH_SITE, gateway_kind};
use crate::auth::SESSION_COOKIE;
use crate::listen::{ClientInfo, Scheme};
use crate::problem::{Code, Problem};
use crate::security_headers::{CROSS_ORIGIN_RESOURCE_POLICY, SAME_ORIGIN};

/// Destinations that browsers render as a page.
const PAGES: [&str; 5] = ["document", "iframe", "frame", "embed", "object"];
/// Gives the page an opaque origin. Scripts and forms work, but without access to this origin.
const OPAQUE_ORIGIN: HeaderValue = HeaderValue::from_static("sandbox allow-scripts allow-forms");

#[derive(Debug, Clone)]
pub(super) struct Isolation {
    proxies: ProxyRoutes,
    require_keys: bool,
}

impl Isolation {
    pub(super) fn new(state: &AppState) -> Self {
        let require_keys = state.auth.settings().require_keys;
        Self { proxies: state.proxies.clone(), require_keys }
    }

    /// Returns the address with an origin for this page alone, if the user typed the address of a page.
    fn own_address(&self, request: &Request) -> Option<String> {
        let is =
            |name: HeaderName, word: &str| request.headers().get(name).is_some_and(|v| v == word);
        let is_typed = request.method() == Method::GET
            && is(SEC_FETCH_SITE, "none")
            && is(SEC_FETCH_DEST, "document");
        let client = request.extensions().get::<ClientInfo>();
        if self.require_keys || !is_typed || client?.scheme != Scheme::Http {
            return None;
        }
        let kind = self.proxies.kind_at(request.uri().path())?;
        let host = site_guard::gateway_host(site_guard::host(request)?, kind)?;
        Some(format!("http://{host}{}", request.uri().path_and_query()?))
    }
}

/// Changes the responses to browsers, which alone send `Sec-Fetch-Dest`. Programs get them unchanged.
pub(super) async fn isolate(
    State(isolation): State<Isolation>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(address) = isolation.own_address(&request) {
        return Redirect::temporary(&address).into_response();
    }
    let has_own_origin = site_guard::host(&request).and_then(gateway_kind).is_some();
    let wanted = request.headers().get(SEC_FETCH_DEST).cloned();
    let is = |word: &str| wanted.as_ref().is_some_and(|wanted| wanted == word);
    if is("serviceworker") {
        // It would intercept all later requests below this path.
        let detail = "service workers are not served from gateway paths";
        return Problem::new(Code::Forbidden, detail).into_response();
    }
    remove_session(request.headers_mut());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    reject_session(headers);
    if wanted.is_some() {
        headers.entry(CROSS_ORIGIN_RESOURCE_POLICY).or_insert(SAME_ORIGIN);
    }
    if PAGES.iter().any(|word| is(word)) && !has_own_origin {
        // In addition to the upstream's policy: browsers enforce all.
        headers.append(CONTENT_SECURITY_POLICY, OPAQUE_ORIGIN);
    }
    response
}

/// Removes the session cookie from a request, so that the upstream does not receive it.
fn remove_session(headers: &mut HeaderMap) {
    let is_ours = |pair: &str| is_named(pair.trim_start());
    let cookies: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    let texts: Vec<&str> = cookies.iter().filter_map(|value| value.to_str().ok()).collect();
    if !texts.iter().any(|text| text.split(';').any(is_ours)) {
        return;
    }
    headers.remove(COOKIE);
    for text in texts {
        let others: Vec<&str> = text.split(';').filter(|pair| !is_ours(pair)).collect();
        let others = others.join(";");
        if let Ok(value) = HeaderValue::from_str(others.trim())
            && !value.is_empty()
        {
            headers.append(COOKIE, value);
        }
    }
}

/// Removes session cookies from a response, so that the upstream cannot set one.
fn reject_session(headers: &mut HeaderMap) {
    let set: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().cloned().collect();
    let is_ours =
        |value: &HeaderValue| value.to_str().is_ok_and(|text| is_named(text.trim_start()));
    if !set.iter().any(is_ours) {
        return;
    }
    headers.remove(SET_COOKIE);
    for value in set.into_iter().filter(|value| !is_ours(value)) {
        headers.append(SET_COOKIE, value);
    }
}

fn is_named(pair: &str) -> bool {
    pair.strip_prefix(SESSION_COOKIE).is_some_and(|rest| rest.trim_start().starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(values: &[&'static str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(COOKIE, HeaderValue::from_static(value));
        }
        remove_session(&mut headers);
        let left = headers.get_all(COOKIE).iter();
        left.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn session_cookie_is_removed_from_gateway_requests() {
        assert_eq!(cookies(&["a=1;b=2 ; c"]), ["a=1;b=2 ; c"]);
        assert_eq!(cookies(&["a=1; __Host-longhaul=x; b=2"]), ["a=1; b=2"]);
        assert_eq!(cookies(&["__Host-longhaul=x", "b=2"]), ["b=2"]);
        assert_eq!(cookies(&["__Host-longhauler=x"]), ["__Host-longhauler=x"]);
    }
}
