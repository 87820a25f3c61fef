//! What an endpoint answers is served from our own origin. A page of its must not be able to do there what
//! pages of ours can, with the session of whoever looks at it.

use axum::extract::Request;
use axum::http::header::{CONTENT_SECURITY_POLICY, COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::auth::SESSION_COOKIE;
use crate::problem::{Code, Problem};

/// Says what a browser wants an answer for. Programs send no such thing, and get the answer as it is.
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Shown to somebody, as a page or inside of one.
const SHOWN: [&str; 5] = ["document", "iframe", "frame", "embed", "object"];
/// A page of no origin: its scripts run and its forms are sent, but it is not one of ours.
const APART: HeaderValue = HeaderValue::from_static("sandbox allow-scripts allow-forms");

pub(super) async fn keep_apart(mut request: Request, next: Next) -> Response {
    let wanted = request.headers().get(SEC_FETCH_DEST).cloned();
    let is = |word: &str| wanted.as_ref().is_some_and(|wanted| wanted == word);
    if is("serviceworker") {
        // It would stand between every later page below this path and its reader.
        let detail = "no service worker is served from a proxied path";
        return Problem::new(Code::Forbidden, detail).into_response();
    }
    take_session(request.headers_mut());
    let mut response = next.run(request).await;
    keep_session(response.headers_mut());
    if SHOWN.iter().any(|word| is(word)) {
        // Besides what the endpoint says itself: of several policies each holds.
        response.headers_mut().append(CONTENT_SECURITY_POLICY, APART);
    }
    response
}

/// Whoever is behind a path is not told the session of whoever looks at it.
fn take_session(headers: &mut HeaderMap) {
    let is_ours = |pair: &str| is_named(pair.trim_start());
    let told: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    let texts: Vec<&str> = told.iter().filter_map(|value| value.to_str().ok()).collect();
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

/// Nor can it sign anybody in here.
fn keep_session(headers: &mut HeaderMap) {
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
        take_session(&mut headers);
        let left = headers.get_all(COOKIE).iter();
        left.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn only_the_session_is_taken_out_of_cookies() {
        assert_eq!(cookies(&["a=1;b=2 ; c"]), ["a=1;b=2 ; c"]);
        assert_eq!(cookies(&["a=1; __Host-longhaul=x; b=2"]), ["a=1; b=2"]);
        assert_eq!(cookies(&["__Host-longhaul=x", "b=2"]), ["b=2"]);
        assert_eq!(cookies(&["__Host-longhauler=x"]), ["__Host-longhauler=x"]);
    }
}
