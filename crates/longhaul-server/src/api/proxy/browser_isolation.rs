//! Isolation of upstream pages in browsers.
//!
//! Upstream responses are served from the server's origin. Their pages must not be able to use the dashboard session
//! of the person who views them.

use axum::extract::Request;
use axum::http::header::{CONTENT_SECURITY_POLICY, COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::auth::SESSION_COOKIE;
use crate::problem::{Code, Problem};

/// Sent by browsers only. Other clients get the response unchanged.
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Destinations that browsers render as a page.
const PAGES: [&str; 5] = ["document", "iframe", "frame", "embed", "object"];
/// Gives the page an opaque origin. Scripts and forms work, but without access to this origin.
const OPAQUE_ORIGIN: HeaderValue = HeaderValue::from_static("sandbox allow-scripts allow-forms");

pub(super) async fn isolate(mut request: Request, next: Next) -> Response {
    let wanted = request.headers().get(SEC_FETCH_DEST).cloned();
    let is = |word: &str| wanted.as_ref().is_some_and(|wanted| wanted == word);
    if is("serviceworker") {
        // It would intercept all later requests below this path.
        let detail = "service workers are not served from gateway paths";
        return Problem::new(Code::Forbidden, detail).into_response();
    }
    remove_session(request.headers_mut());
    let mut response = next.run(request).await;
    reject_session(response.headers_mut());
    if PAGES.iter().any(|word| is(word)) {
        // In addition to the upstream's policy: browsers enforce all.
        response.headers_mut().append(CONTENT_SECURITY_POLICY, OPAQUE_ORIGIN);
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
