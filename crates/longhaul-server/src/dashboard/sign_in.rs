//! Signing in with a key, and out again.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::http::uri::Authority;
use axum::response::Response;
use maud::{Markup, html};
use url::form_urlencoded;

use super::form::{self, Form};
use super::guard::host;
use super::layout::{self, Place, Shell};
use super::refusal::redirect;
use super::session::{self, Session};
use crate::api::AppState;
use crate::api::http::body;
use crate::api::http::params::Pairs;
use crate::auth::{AuthError, Principal};
use crate::listen::{ClientInfo, Scheme};
use crate::problem::{Code, Problem};
use crate::secret::Secret;

/// Where somebody goes who came to sign in and for nothing else.
const HOME: &str = "/";

pub(super) async fn show(
    State(state): State<AppState>,
    query: Pairs,
    request: Request,
) -> Response {
    let session = Session::of(&state.auth, request.headers());
    let said =
        |wanted: &str| query.0.iter().find(|(name, _)| name == wanted).map(|(_, v)| v.as_str());
    let notice = match said("did") {
        Some("ended") => Some("Your session has ended. Sign in again to go on."),
        Some("signed-out") => Some("You are signed out."),
        Some(_) | None => None,
    };
    let next = said("next").unwrap_or(HOME);
    if !can_keep_cookies(&request) {
        return page(&session, &needs_tls());
    }
    page(&session, &ask(&session, next, notice, None))
}

pub(super) async fn sign_in(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let session = Session::of(&state.auth, request.headers());
    let client = request.extensions().get::<ClientInfo>().map(|client| client.address);
    state.auth.count_sign_in(client)?;
    let (parts, content) = request.into_parts();
    let bytes = body::read(&parts.headers, content, body::SMALL_BYTES_MAX).await?;
    let form = Form::new(form_urlencoded::parse(&bytes).into_owned().collect());
    form::check(&state, &session, form.text(form::TOKEN).as_deref())?;
    let next = form.text("next").filter(|next| is_ours(next)).unwrap_or_else(|| HOME.to_owned());
    let again = |why: &str| {
        let mut answer = page(&session, &ask(&session, &next, None, Some(why)));
        *answer.status_mut() = StatusCode::UNAUTHORIZED;
        answer.extensions_mut().insert(crate::problem::KeepBody);
        Ok(answer)
    };
    let Some(shown) = form.text("key").as_deref().and_then(Secret::new) else {
        return again("Paste a key to sign in.");
    };
    if let Err(refusal) = state.auth.principal(Some(shown.expose())).await {
        return again(&why_not(refusal)?);
    }
    let Some(cookie) = session::begin(&state.auth, &shown) else {
        return again("This token is too long to be kept in a cookie. Sign in with a key instead.");
    };
    let mut answer = redirect(&next);
    answer.headers_mut().insert(SET_COOKIE, cookie);
    Ok(answer)
}

pub(super) async fn sign_out(_form: Form) -> Response {
    let mut answer = redirect("/ui/sign-in?did=signed-out");
    answer.headers_mut().insert(SET_COOKIE, session::end());
    answer
}

/// What is said of a key that does not open anything.
fn why_not(refusal: AuthError) -> Result<String, Problem> {
    Ok(match refusal {
        AuthError::NoKey | AuthError::BadKey => {
            "This key is not known here, was revoked, or has expired.".to_owned()
        }
        AuthError::BadToken(error) => format!("This token is not accepted: {error}."),
        AuthError::NoTenant { claim, .. } => {
            format!("The token is good, but its claim {claim:?} names no tenant of this server.")
        }
        AuthError::NoIssuerKeys => {
            let detail = "the token cannot be judged: its issuer's keys could not be fetched";
            return Err(Problem::new(Code::Unavailable, detail));
        }
        AuthError::Store(error) => return Err(error.into()),
    })
}

/// Whether an address is one of our pages, and not somebody else's that only looks like it.
pub(super) fn is_ours(next: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    (next == "/" || next.starts_with("/ui") || next.starts_with("/?")) && next.bytes().all(plain)
}

/// Browsers keep our cookie over TLS, and from this very machine.
fn can_keep_cookies(request: &Request) -> bool {
    let scheme = request.extensions().get::<ClientInfo>().map(|client| client.scheme);
    let name = host(request).and_then(|host| host.parse::<Authority>().ok());
    let name = name.as_ref().map_or("", Authority::host);
    let is_here = name == "localhost" || name == "[::1]" || name.starts_with("127.");
    is_here || scheme != Some(Scheme::Http)
}

fn page(session: &Session, content: &Markup) -> Response {
    layout::page(&Shell::plain("Sign in", Place::None, session), content)
}

fn ask(session: &Session, next: &str, notice: Option<&str>, wrong: Option<&str>) -> Markup {
    html! {
        section.narrow aria-labelledby="sign-in" {
            h1 #sign-in { "Sign in" }
            @if let Some(notice) = notice { p.notice role="status" { (notice) } }
            @if let Some(wrong) = wrong { p.wrong role="alert" { (wrong) } }
            form method="post" action="/ui/sign-in" {
                input type="hidden" name=(form::TOKEN) value=(session.token);
                input type="hidden" name="next" value=(next);
                p {
                    label for="key" { "API key" }
                    input #key type="password" name="key" required autofocus
                        autocomplete="current-password" spellcheck="false" placeholder="lh_…";
                }
                p { button.primary { "Sign in" } }
            }
            p.soft {
                "The session holds this key, sealed, for twelve hours, and ends at once when the key does. "
                "Keys are made with " code { "longhaul keys create" } "."
            }
        }
    }
}

fn needs_tls() -> Markup {
    html! {
        section.narrow aria-labelledby="sign-in" {
            h1 #sign-in { "Signing in needs TLS" }
            p {
                "This page came in clear, and browsers do not keep this server's cookie from such a page. "
                "Open it over " code { "https://" } " instead."
            }
            p {
                "Give the server a certificate with " code { "tls.cert" } " and " code { "tls.key" }
                " in longhaul.toml, put it behind a proxy that speaks TLS, or open it on the machine that "
                "it runs on: " code { "ssh -L 8080:127.0.0.1:8080 HOST" } "."
            }
        }
    }
}

/// Whoever is signed in, for the head of each page.
pub(super) fn whoever(principal: &Principal) -> String {
    format!("{} in {}", principal.actor, principal.tenant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(scheme: Scheme, host: &str) -> Request {
        let client = ClientInfo { address: "192.0.2.7".parse().unwrap(), scheme };
        let request = Request::get("/ui/sign-in").header("host", host).extension(client);
        request.body(axum::body::Body::empty()).unwrap()
    }

    #[test]
    fn cookies_are_kept_over_tls_and_from_this_machine() {
        for host in ["localhost:8080", "127.0.0.1:8080", "127.0.0.1", "[::1]:8080"] {
            assert!(can_keep_cookies(&asked(Scheme::Http, host)), "{host}");
        }
        for host in ["jobs.example", "10.0.0.7:8080", "localhost.evil.example", "", "a b"] {
            assert!(!can_keep_cookies(&asked(Scheme::Http, host)), "{host}");
            assert!(can_keep_cookies(&asked(Scheme::Https, host)), "{host}");
        }
    }

    #[test]
    fn only_pages_of_ours_follow() {
        for ours in ["/", "/?tenant=a", "/ui/jobs?status=failed&kind=a"] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/v1/jobs",
            "/ui/\r\nx: 1",
            "",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
