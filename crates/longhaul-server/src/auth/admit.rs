//! Asks of every request who makes it, before anybody reads its body.

use std::borrow::Cow;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::rate::{Left, TooFast};
use super::token::is_key;
use super::{Auth, Principal, Refusal};
use crate::problem::{Code, Problem};
use crate::secret::Secret;

pub(crate) const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// When the issuer's keys may be there: they are asked for that often.
const KEYS_RETRY: Duration = Duration::from_secs(10);

/// What a caller of a proxied path showed, to be judged by again.
#[derive(Debug, Clone)]
pub(crate) struct Shown(pub(crate) Option<Secret>);

/// Leaves the [`super::Principal`] in the request's extensions, or answers that there is none.
pub async fn admit(State(auth): State<Auth>, request: Request, next: Next) -> Response {
    let principal = match presented(request.headers()) {
        Ok(presented) => auth.principal(presented).await,
        Err(refusal) => Err(refusal),
    };
    enter(&auth, principal, request, next).await
}

/// The same for a path that leads elsewhere: an `Authorization` that is none of ours is for whoever is there.
/// Also leaves `Shown`.
pub async fn admit_proxied(State(auth): State<Auth>, mut request: Request, next: Next) -> Response {
    let shown = match presented_to_proxy(&auth, request.headers()) {
        Ok(presented) => presented.and_then(Secret::new),
        Err(refusal) => return refused(refusal).into_response(),
    };
    let principal = auth.principal(shown.as_ref().map(Secret::expose)).await;
    request.extensions_mut().insert(Shown(shown));
    enter(&auth, principal, request, next).await
}

pub(super) async fn enter(
    auth: &Auth,
    principal: Result<Principal, Refusal>,
    mut request: Request,
    next: Next,
) -> Response {
    let principal = match principal {
        Ok(principal) => principal,
        Err(refusal) => return refused(refusal).into_response(),
    };
    match auth.pass(&principal) {
        None => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Some((per_s, Ok(left))) => {
            request.extensions_mut().insert(principal);
            let mut response = next.run(request).await;
            // What the handler says of another limit, which it ran into, comes first.
            if !response.headers().contains_key(RATELIMIT) {
                tell(response.headers_mut(), per_s, left);
            }
            response
        }
        Some((per_s, Err(TooFast { again_in }))) => {
            let detail = format!("at most {per_s} requests a second are allowed");
            let problem = Problem::new(Code::TooManyRequests, detail).retry_after(again_in);
            let mut response = problem.into_response();
            let left = Left { remaining: 0, full_in: again_in };
            tell(response.headers_mut(), per_s, left);
            response
        }
    }
}

/// The same at doors whose clients have to send some key, whatever is there: where nobody needs one, a
/// bearer's token that cannot be ours is as good as none.
pub async fn admit_strangers(
    State(auth): State<Auth>,
    mut request: Request,
    next: Next,
) -> Response {
    if auth.is_foreign(request.headers()) {
        request.headers_mut().remove(AUTHORIZATION);
    }
    admit(State(auth), request, next).await
}

/// The key as it was sent: as a bearer token, or in the header that some clients can set and no other.
pub(super) fn presented(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    if let Some(value) = headers.get(AUTHORIZATION) {
        let text = value.to_str().map_err(|_| Refusal::BadKey)?;
        let (scheme, token) = text.split_once(' ').ok_or(Refusal::BadKey)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Refusal::BadKey);
        }
        return Ok(Some(token.trim()));
    }
    let value = headers.get(X_API_KEY);
    value.map(|value| value.to_str().map_err(|_| Refusal::BadKey)).transpose()
}

/// Our header, or a bearer token that is one of ours.
fn presented_to_proxy<'a>(auth: &Auth, headers: &'a HeaderMap) -> Result<Option<&'a str>, Refusal> {
    if let Some(value) = headers.get(X_API_KEY) {
        return value.to_str().map(Some).map_err(|_| Refusal::BadKey);
    }
    Ok(bearer(headers).filter(|token| auth.is_ours(token)))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Auth {
    /// Whether these fields have an `Authorization` that is for us and for nobody else: a key, or the token
    /// that its caller was let in by.
    pub(crate) fn is_for_us(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|token| {
            is_key(token) || (self.is_ours(token) && !headers.contains_key(X_API_KEY))
        })
    }

    /// Whether a bearer's token means nothing here, and need not.
    fn is_foreign(&self, headers: &HeaderMap) -> bool {
        let text = headers.get(AUTHORIZATION).and_then(|_| presented(headers).ok().flatten());
        text.is_some_and(|text| !self.settings().require_keys && !self.may_know(text))
    }

    /// Judges anew whoever was let in with these headers, with the refusal that it would meet at the door.
    /// None while nobody can tell: that a database or an issuer is away takes no right from anybody.
    pub(crate) async fn again(&self, shown: Option<&Secret>) -> Option<Result<Principal, Problem>> {
        match self.principal(shown.map(Secret::expose)).await {
            Ok(principal) => Some(Ok(principal)),
            Err(Refusal::Store(_) | Refusal::NoIssuerKeys) => None,
            Err(refusal) => Some(Err(refused(refusal))),
        }
    }
}

/// What a caller showed, to be judged by again.
pub(crate) fn shown(headers: &HeaderMap) -> Option<Secret> {
    presented(headers).ok().flatten().and_then(Secret::new)
}

fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::NoKey => {
            let detail = "send a key as `Authorization: Bearer lh_…` or `X-Api-Key: lh_…`";
            let challenge = HeaderValue::from_static("Bearer realm=\"longhaul\"");
            Problem::new(Code::Unauthorized, detail).header(WWW_AUTHENTICATE, challenge)
        }
        Refusal::BadKey => {
            let detail = "the key is not known here, was revoked or has expired";
            invalid(detail)
        }
        Refusal::BadToken(error) => invalid(error.to_string()),
        Refusal::NoTenant { claim, named: Some(tenant) } => {
            let detail = format!(
                "there is no tenant {:?} here, which the token's claim {claim:?} names",
                tenant.as_str()
            );
            Problem::new(Code::Forbidden, detail)
        }
        Refusal::NoTenant { claim, named: None } => {
            let detail = format!("the token's claim {claim:?} names no tenant");
            Problem::new(Code::Forbidden, detail)
        }
        Refusal::NoIssuerKeys => {
            let detail = "the token cannot be judged: its issuer's keys could not be fetched";
            Problem::new(Code::Unavailable, detail).retry_after(KEYS_RETRY)
        }
        Refusal::Store(error) => Problem::from(error),
    }
}

fn invalid(detail: impl Into<Cow<'static, str>>) -> Problem {
    let challenge = HeaderValue::from_static("Bearer realm=\"longhaul\", error=\"invalid_token\"");
    Problem::new(Code::Unauthorized, detail).header(WWW_AUTHENTICATE, challenge)
}

fn tell(headers: &mut HeaderMap, per_s: u32, left: Left) {
    let Left { remaining, full_in } = left;
    let seconds = whole_seconds(full_in);
    let limit = format!("\"requests\";r={remaining};t={seconds}");
    let policy = format!("\"requests\";q={per_s};w=1");
    for (name, text) in [(RATELIMIT, limit), (RATELIMIT_POLICY, policy)] {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
