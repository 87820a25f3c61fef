//! Sign-in with an API key or token, and sign-out.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::http::uri::Authority;
use axum::response::Response;
use longhaul::store::accounts::Actor;
use maud::{Markup, html};
use url::form_urlencoded;

use super::components::token_field;
use super::error_page::redirect;
use super::form::{self, Form};
use super::layout::{self, Section, Shell};
use super::session::{self, Session};
use crate::api::AppState;
use crate::api::http::body;
use crate::api::http::params::Pairs;
use crate::api::http::site_guard::host;
use crate::auth::{AuthError, Principal, client_address};
use crate::listen::{ClientInfo, Scheme};
use crate::problem::{Code, Problem, Result};
use crate::secret::Secret;

/// Page after the sign-in, unless the caller wanted another one.
const HOME: &str = "/";

pub(super) async fn show(
    State(state): State<AppState>,
    query: Pairs,
    request: Request,
) -> Response {
    let session = Session::of(&state.auth, request.headers());
    let param =
        |wanted: &str| query.0.iter().find(|(name, _)| name == wanted).map(|(_, v)| v.as_str());
    let notice = match param("did") {
        Some("ended") => Some("Your session has ended. Sign in again to continue."),
        Some("signed-out") => Some("You are signed out."),
        Some(_) | None => None,
    };
    let next = param("next").unwrap_or(HOME);
    if !accepts_cookies(&request) {
        return page(&session, &needs_tls());
    }
    page(&session, &sign_in_form(&session, next, notice, None))
}

pub(super) async fn sign_in(State(state): State<AppState>, request: Request) -> Result<Response> {
    let session = Session::of(&state.auth, request.headers());
    let client = client_address(&request);
    let (parts, content) = request.into_parts();
    let bytes = body::read(&parts.headers, content, body::SMALL_BYTES_MAX).await?;
    let form = Form::new(form_urlencoded::parse(&bytes).into_owned().collect());
    form::check(&state, &session, form.text(form::TOKEN).as_deref())?;
    let next =
        form.text("next").filter(|next| is_own_page(next)).unwrap_or_else(|| HOME.to_owned());
    let retry = |error: &str| {
        let mut response = page(&session, &sign_in_form(&session, &next, None, Some(error)));
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response.extensions_mut().insert(crate::problem::KeepBody);
        Ok(response)
    };
    let Some(credential) = form.text("key").as_deref().and_then(Secret::new) else {
        return retry("Enter an API key.");
    };
    if let Err(refusal) = state.auth.sign_in(credential.expose(), client).await {
        return retry(&rejection_message(refusal)?);
    }
    let Some(cookie) = session::begin(&state.auth, &credential) else {
        return retry("This token is too long for a cookie. Sign in with an API key instead.");
    };
    let mut response = redirect(&next);
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

pub(super) async fn sign_out(_form: Form) -> Response {
    let mut response = redirect("/ui/sign-in?did=signed-out");
    response.headers_mut().insert(SET_COOKIE, session::end());
    response
}

/// Returns the message for a rejected key or token.
fn rejection_message(refusal: AuthError) -> Result<String> {
    Ok(match refusal {
        AuthError::NoKey | AuthError::BadKey => {
            "This key is unknown, revoked or expired.".to_owned()
        }
        AuthError::BadToken(error) => format!("Token rejected: {error}."),
        AuthError::TooManyFailures { retry_in } => {
            let detail = "too many failed sign-in attempts from this address";
            return Err(Problem::new(Code::TooManyRequests, detail).retry_after(retry_in));
        }
        AuthError::NoTenant { claim, .. } => {
            format!("The token is valid, but its claim {claim:?} names no tenant of this server.")
        }
        AuthError::NoIssuerKeys => {
            let detail = "the token cannot be verified: the keys of its issuer are unavailable";
            return Err(Problem::new(Code::Unavailable, detail));
        }
        AuthError::Store(error) => return Err(error.into()),
    })
}

/// Reports whether a path is a page of this server, so that a sign-in cannot redirect to another site.
pub(super) fn is_own_page(next: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    (next == "/" || next.starts_with("/ui") || next.starts_with("/?")) && next.bytes().all(plain)
}

/// Reports whether the browser accepts a `Secure` cookie: over TLS, or from this machine.
fn accepts_cookies(request: &Request) -> bool {
    let scheme = request.extensions().get::<ClientInfo>().map(|client| client.scheme);
    let name = host(request).and_then(|host| host.parse::<Authority>().ok());
    let name = name.as_ref().map_or("", Authority::host);
    let is_here = name == "localhost" || name == "[::1]" || name.starts_with("127.");
    is_here || scheme != Some(Scheme::Http)
}

fn page(session: &Session, content: &Markup) -> Response {
    layout::page(&Shell::plain("Sign in", Section::None, session), content)
}

fn sign_in_form(
    session: &Session,
    next: &str,
    notice: Option<&str>,
    error: Option<&str>,
) -> Markup {
    html! {
        section.narrow aria-labelledby="sign-in" {
            h1 #sign-in { "Sign in" }
            @if let Some(notice) = notice { p.notice role="status" { (notice) } }
            @if let Some(error) = error { p.wrong role="alert" { (error) } }
            form method="post" action="/ui/sign-in" {
                (token_field(session))
                input type="hidden" name="next" value=(next);
                p {
                    label for="key" { "API key" }
                    input #key type="password" name="key" required autofocus
                        autocomplete="current-password" spellcheck="false" placeholder="lh_…";
                }
                p { button.primary { "Sign in" } }
            }
            p.soft {
                "The session lasts twelve hours, and ends early if the key is revoked or expires. "
                "Create keys with " code { "longhaul keys create" } "."
            }
        }
    }
}

fn needs_tls() -> Markup {
    html! {
        section.narrow aria-labelledby="sign-in" {
            h1 #sign-in { "Sign-in needs TLS" }
            p {
                "This page was loaded without TLS, so the browser rejects the session cookie. Open it over "
                code { "https://" } " instead."
            }
            p {
                "Configure a certificate with " code { "tls.cert" } " and " code { "tls.key" }
                " in longhaul.toml, use a TLS proxy, or forward the port to your machine: "
                code { "ssh -L 8080:127.0.0.1:8080 HOST" } "."
            }
        }
    }
}

/// Returns the name of the caller and its tenant for the page header.
pub(super) fn display_name(principal: &Principal) -> String {
    let tenant = &principal.tenant;
    match &principal.actor {
        Actor::Local => format!("Local access · tenant: {tenant}"),
        actor @ (Actor::Key(_) | Actor::Subject(_) | Actor::Billing | Actor::Server) => {
            format!("{actor} · tenant: {tenant}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(scheme: Scheme, host: &str) -> Request {
        let client = ClientInfo { address: "192.0.2.7".parse().unwrap(), scheme };
        let request = Request::get("/ui/sign-in").header("host", host).extension(client);
        request.body(axum::body::Body::empty()).unwrap()
    }

    #[test]
    fn secure_cookies_need_tls_or_this_machine() {
        for host in ["localhost:8080", "127.0.0.1:8080", "127.0.0.1", "[::1]:8080"] {
            assert!(accepts_cookies(&request(Scheme::Http, host)), "{host}");
        }
        for host in ["jobs.example", "10.0.0.7:8080", "localhost.evil.example", "", "a b"] {
            assert!(!accepts_cookies(&request(Scheme::Http, host)), "{host}");
            assert!(accepts_cookies(&request(Scheme::Https, host)), "{host}");
        }
    }

    #[test]
    fn sign_in_redirects_to_own_pages_only() {
        for own in ["/", "/?tenant=a", "/ui/jobs?status=failed&kind=a"] {
            assert!(is_own_page(own), "{own}");
        }
        for other in [
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/v1/jobs",
            "/ui/\r\nx: 1",
            "",
        ] {
            assert!(!is_own_page(other), "{other}");
        }
    }
}
