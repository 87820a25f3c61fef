//! Error pages for browsers. Clients that do not accept HTML get the problem as from the API.

use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::html;
use url::form_urlencoded;

use super::layout::{self, Section, Shell};
use super::session::{self, Session};
use crate::api::http::params::items;
use crate::api::http::site_guard::SEC_FETCH_SITE;
use crate::auth::Auth;
use crate::problem::{Code, KeepBody, Problem};
use crate::request_id::RequestId;

/// Renders problems as pages, and redirects to the sign-in page where one is needed.
pub(super) async fn render_errors(
    State(auth): State<Auth>,
    request: Request,
    next: Next,
) -> Response {
    if !accepts_pages(request.headers()) {
        return next.run(request).await;
    }
    let info = RequestInfo {
        path: request.uri().path().to_owned(),
        path_and_query: request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        is_read: matches!(*request.method(), Method::GET | Method::HEAD),
        is_cross_site: request.headers().get(SEC_FETCH_SITE).is_some_and(|s| s == "cross-site"),
        has_cookie: session::has_cookie(request.headers()),
        session: Session::of(&auth, request.headers()),
        id: request.extensions().get::<RequestId>().map(RequestId::to_string),
    };
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    problem.log();
    if problem.code() != Code::Unauthorized {
        return page(&info, &problem);
    }
    if info.is_read && info.is_cross_site && !info.has_cookie {
        return reload_once(&info.path_and_query);
    }
    to_sign_in(&info)
}

struct RequestInfo {
    path: String,
    path_and_query: String,
    is_read: bool,
    is_cross_site: bool,
    has_cookie: bool,
    session: Session,
    id: Option<String>,
}

fn accepts_pages(headers: &HeaderMap) -> bool {
    items(headers, ACCEPT).any(|kind| kind.starts_with("text/html"))
}

/// Reloads the page once, because a link on another site brings no `SameSite=Strict` cookie along but the reload does.
fn reload_once(url: &str) -> Response {
    let refresh = format!("0; url={url}");
    let body = html! {
        main { p { a href=(url) { "Continue to Longhaul" } } }
    };
    let head = html! { meta http-equiv="refresh" content=(refresh); };
    layout::bare("Longhaul", &head, &body)
}

fn to_sign_in(info: &RequestInfo) -> Response {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if info.is_read && info.path_and_query != "/" {
        query.append_pair("next", &info.path_and_query);
    }
    if info.has_cookie {
        query.append_pair("did", "ended");
    }
    let query = query.finish();
    let url =
        if query.is_empty() { "/ui/sign-in".to_owned() } else { format!("/ui/sign-in?{query}") };
    let mut response = redirect(&url);
    if info.has_cookie {
        response.headers_mut().insert(SET_COOKIE, session::end());
    }
    response
}

/// Redirects a browser with GET.
pub(super) fn redirect(url: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    // Always a valid header value, because its parts are escaped.
    let url = HeaderValue::from_str(url).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, url);
    response
}

fn page(info: &RequestInfo, problem: &Problem) -> Response {
    let title = problem.code().title();
    // The URL of a button is below the URL of its page.
    let back = info.path.rsplit_once('/').map_or("/", |(page, _)| page);
    let back = if info.is_read || back.is_empty() { "/" } else { back };
    let body = html! {
        section.error-page aria-labelledby="title" {
            h1 #title { (title) }
            @let detail = sentence(problem.detail());
            @if detail != format!("{title}.") { p { (detail) } }
            p.soft {
                (problem.status().as_u16()) " " code { (problem.code().as_str()) }
                @if let Some(id) = &info.id { " · request " code { (id) } }
            }
            p { a href=(back) { "Back" } }
        }
    };
    let shell = Shell::plain(title, Section::None, &info.session);
    let mut response = layout::page(&shell, &body);
    *response.status_mut() = problem.status();
    response.headers_mut().extend(problem.headers().clone());
    response.extensions_mut().insert(KeepBody);
    response
}

/// Turns a problem's detail, which begins in lower case and has no full stop, into a sentence.
fn sentence(detail: &str) -> String {
    let mut chars = detail.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    let mut text: String = first.chain(chars).collect();
    if !text.ends_with(['.', '?', '!']) {
        text.push('.');
    }
    text
}
