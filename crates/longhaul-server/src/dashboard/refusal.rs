//! Problems as pages, for browsers; whoever did not ask for a page gets them as from the API.

use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::html;
use url::form_urlencoded;

use super::guard::SEC_FETCH_SITE;
use super::layout::{self, Place, Shell};
use super::session::{self, Session};
use crate::auth::Auth;
use crate::problem::{Code, KeepBody, Problem};
use crate::request_id::RequestId;

/// Shows a problem as a page, and who has to sign in where to do so.
pub(super) async fn as_pages(State(auth): State<Auth>, request: Request, next: Next) -> Response {
    if !accepts_pages(request.headers()) {
        return next.run(request).await;
    }
    let asked = Asked {
        path: request.uri().path().to_owned(),
        whole: request.uri().path_and_query().map_or("/", |whole| whole.as_str()).to_owned(),
        reads: matches!(*request.method(), Method::GET | Method::HEAD),
        from_elsewhere: request.headers().get(SEC_FETCH_SITE).is_some_and(|s| s == "cross-site"),
        has_cookie: session::has_cookie(request.headers()),
        session: Session::of(&auth, request.headers()),
        id: request.extensions().get::<RequestId>().map(RequestId::to_string),
    };
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    problem.log();
    if problem.code() != Code::Unauthorized {
        return page(&asked, &problem);
    }
    if asked.reads && asked.from_elsewhere && !asked.has_cookie {
        return once_more(&asked.whole);
    }
    to_sign_in(&asked)
}

struct Asked {
    path: String,
    whole: String,
    reads: bool,
    from_elsewhere: bool,
    has_cookie: bool,
    session: Session,
    id: Option<String>,
}

fn accepts_pages(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/html"))
}

/// A link on somebody else's page brings no cookie along: the page that follows itself does.
fn once_more(whole: &str) -> Response {
    let refresh = format!("0; url={whole}");
    let body = html! {
        main { p { a href=(whole) { "Go on to Longhaul" } } }
    };
    let head = html! { meta http-equiv="refresh" content=(refresh); };
    layout::bare("Longhaul", &head, &body)
}

fn to_sign_in(asked: &Asked) -> Response {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if asked.reads && asked.whole != "/" {
        query.append_pair("next", &asked.whole);
    }
    if asked.has_cookie {
        query.append_pair("did", "ended");
    }
    let query = query.finish();
    let url =
        if query.is_empty() { "/ui/sign-in".to_owned() } else { format!("/ui/sign-in?{query}") };
    let mut response = redirect(&url);
    if asked.has_cookie {
        response.headers_mut().insert(SET_COOKIE, session::end());
    }
    response
}

/// Sends a browser on, by GET.
pub(super) fn redirect(url: &str) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    // Made of escaped parts: always a header's value.
    let url = HeaderValue::from_str(url).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, url);
    response
}

fn page(asked: &Asked, problem: &Problem) -> Response {
    let title = problem.code().title();
    // A button's address is below that of the page that has it.
    let back = asked.path.rsplit_once('/').map_or("/", |(page, _)| page);
    let back = if asked.reads || back.is_empty() { "/" } else { back };
    let body = html! {
        section.refusal aria-labelledby="what" {
            h1 #what { (title) }
            @let said = sentence(problem.detail());
            @if said != format!("{title}.") { p { (said) } }
            p.soft {
                (problem.status().as_u16()) " " code { (problem.code().as_str()) }
                @if let Some(id) = &asked.id { " · request " code { (id) } }
            }
            p { a href=(back) { "Back" } }
        }
    };
    let shell = Shell::plain(title, Place::None, &asked.session);
    let mut response = layout::page(&shell, &body);
    *response.status_mut() = problem.status();
    response.headers_mut().extend(problem.headers().clone());
    response.extensions_mut().insert(KeepBody);
    response
}

/// Details begin in lower case and have no full stop: they go on in other people's sentences.
fn sentence(detail: &str) -> String {
    let mut chars = detail.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    let mut text: String = first.chain(chars).collect();
    if !text.ends_with(['.', '?', '!']) {
        text.push('.');
    }
    text
}
