//! Authentication and rate-limit middleware. Runs before a request's body is read.

use std::borrow::Cow;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::api_key::is_key;
use super::rate_limit::{RateAllowance, RateExceeded};
use super::{Auth, AuthError, Principal, client_address};
use crate::api::http::respond::set_header;
use crate::problem::{Code, Problem, Result};
use crate::secret::Secret;

pub(crate) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// `Retry-After` while the issuer's keys are not available; they are fetched at this interval.
const KEYS_RETRY: Duration = Duration::from_secs(10);

/// Credential of a request to a proxied path, kept for re-authentication.
#[derive(Debug, Clone)]
pub(crate) struct PresentedCredential(pub(crate) Option<Secret>);

/// Stores the [`super::Principal`] in the request's extensions, or rejects the request.
pub async fn authenticate(State(auth): State<Auth>, request: Request, next: Next) -> Response {
    let presented = credential_text(request.headers());
    let text = presented.as_ref().map(Option::as_deref).map_err(|_| AuthError::BadKey);
    let principal = auth.limit_failures(auth.principal(text).await, client_address(&request));
    run_as(&auth, principal, request, next).await
}

/// Authenticates requests to a proxied path, where an `Authorization` header that is no Longhaul credential
/// belongs to the upstream. Also stores a `PresentedCredential`.
pub async fn authenticate_proxied(
    State(auth): State<Auth>,
    mut request: Request,
    next: Next,
) -> Response {
    let presented = proxy_credential(&auth, request.headers());
    let credential = presented.as_ref().ok().copied().flatten().and_then(Secret::new);
    let principal = auth.limit_failures(auth.principal(presented).await, client_address(&request));
    request.extensions_mut().insert(PresentedCredential(credential));
    run_as(&auth, principal, request, next).await
}

/// Runs the request as `principal`, within its rate limit.
pub(super) async fn run_as(
    auth: &Auth,
    principal: Result<Principal, AuthError>,
    mut request: Request,
    next: Next,
) -> Response {
    let principal = match principal {
        Ok(principal) => principal,
        Err(error) => return to_problem(error).into_response(),
    };
    match auth.count_request(&principal) {
        None => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Some((per_s, Ok(left))) => {
            request.extensions_mut().insert(principal);
            let mut response = next.run(request).await;
            // A limit that the handler reports takes precedence.
            if !response.headers().contains_key(RATELIMIT) {
                set_rate_headers(&mut response, per_s, left);
            }
            response
        }
        Some((per_s, Err(RateExceeded { retry_in }))) => {
            let detail = format!("the limit is {per_s} requests per second");
            let problem = Problem::new(Code::TooManyRequests, detail).retry_after(retry_in);
            let mut response = problem.into_response();
            let left = RateAllowance { remaining: 0, full_in: retry_in };
            set_rate_headers(&mut response, per_s, left);
            response
        }
    }
}

/// Returns the credential from `Authorization: Bearer`, from the password of `Authorization: Basic`, or from `X-Api-Key`
/// for clients that can set only one of these.
pub(super) fn credential_text(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, AuthError> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        let text = value.to_str().map_err(|_| AuthError::BadKey)?;
        let (scheme, token) = text.split_once(' ').ok_or(AuthError::BadKey)?;
        return match scheme.to_ascii_lowercase().as_str() {
            "bearer" => Ok(Some(token.trim().into())),
            "basic" => password(token.trim()).map(|key| Some(key.into())).ok_or(AuthError::BadKey),
            _ => Err(AuthError::BadKey),
        };
    }
    let Some(value) = headers.get(X_API_KEY) else { return Ok(None) };
    value.to_str().map(|key| Some(key.into())).map_err(|_| AuthError::BadKey)
}

/// Returns the password of HTTP Basic credentials. The user name is ignored.
fn password(credentials: &str) -> Option<String> {
    let text = String::from_utf8(BASE64_STANDARD.decode(credentials).ok()?).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

/// Returns the credential from `X-Api-Key`, or from a bearer token that is one of ours.
fn proxy_credential<'a>(auth: &Auth, headers: &'a HeaderMap) -> Result<Option<&'a str>, AuthError> {
    if let Some(value) = headers.get(X_API_KEY) {
        return value.to_str().map(Some).map_err(|_| AuthError::BadKey);
    }
    Ok(bearer(headers).filter(|token| auth.is_ours(token)))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Auth {
    /// Returns whether the `Authorization` header is a Longhaul credential and must not reach the upstream: an API key,
    /// or the token that authenticated the caller.
    pub(crate) fn is_own_credential(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|token| {
            is_key(token) || (self.is_ours(token) && !headers.contains_key(X_API_KEY))
        })
    }

    /// Authenticates a credential again, with the error of a new request. `None` while the store or the issuer
    /// is unavailable, because an outage revokes no rights.
    pub(crate) async fn reauthenticate(
        &self,
        credential: Option<&Secret>,
    ) -> Option<Result<Principal>> {
        match self.principal(Ok(credential.map(Secret::expose))).await {
            Ok(principal) => Some(Ok(principal)),
            Err(AuthError::Store(_) | AuthError::NoIssuerKeys) => None,
            Err(error) => Some(Err(to_problem(error))),
        }
    }
}

/// Returns a request's credential, kept for re-authentication.
pub(crate) fn credential(headers: &HeaderMap) -> Option<Secret> {
    credential_text(headers).ok().flatten().as_deref().and_then(Secret::new)
}

fn to_problem(error: AuthError) -> Problem {
    match error {
        AuthError::NoKey => {
            let detail = "send an API key as `Authorization: Bearer lh_…` or `X-Api-Key: lh_…`";
            let challenge = HeaderValue::from_static("Bearer realm=\"longhaul\"");
            Problem::new(Code::Unauthorized, detail).header(WWW_AUTHENTICATE, challenge)
        }
        AuthError::BadKey => invalid("the API key is unknown, revoked or expired"),
        AuthError::BadToken(error) => invalid(error.to_string()),
        AuthError::TooManyFailures { retry_in } => {
            let detail = "too many requests with invalid credentials from this address";
            Problem::new(Code::TooManyRequests, detail).retry_after(retry_in)
        }
        AuthError::NoTenant { claim, named: Some(tenant) } => {
            let detail =
                format!("unknown tenant {:?} in the token's claim {claim:?}", tenant.as_str());
            Problem::new(Code::Forbidden, detail)
        }
        AuthError::NoTenant { claim, named: None } => {
            let detail = format!("the token's claim {claim:?} names no tenant");
            Problem::new(Code::Forbidden, detail)
        }
        AuthError::NoIssuerKeys => {
            let detail = "the token cannot be verified: the issuer's keys are not available";
            Problem::new(Code::Unavailable, detail).retry_after(KEYS_RETRY)
        }
        AuthError::Store(error) => Problem::from(error),
    }
}

fn invalid(detail: impl Into<Cow<'static, str>>) -> Problem {
    let challenge = HeaderValue::from_static("Bearer realm=\"longhaul\", error=\"invalid_token\"");
    Problem::new(Code::Unauthorized, detail).header(WWW_AUTHENTICATE, challenge)
}

fn set_rate_headers(response: &mut Response, per_s: u32, left: RateAllowance) {
    let RateAllowance { remaining, full_in } = left;
    let seconds = full_in.as_secs() + u64::from(full_in.subsec_nanos() > 0);
    set_header(response, RATELIMIT, &format!("\"requests\";r={remaining};t={seconds}"));
    set_header(response, RATELIMIT_POLICY, &format!("\"requests\";q={per_s};w=1"));
}
