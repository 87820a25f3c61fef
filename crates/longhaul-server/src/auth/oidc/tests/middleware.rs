//! Responses of the authentication middleware to callers with tokens.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router, middleware};
use http_body_util::BodyExt as _;
use longhaul::blob::Keyring;
use longhaul::store::accounts::{LimitsChange, TenantChange};
use longhaul::store::sqlite::SqliteStore;
use longhaul::{TenantId, Timestamp};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::super::Issuer;
use super::super::testing::{Behaviour, IssuerHarness, settings};
use crate::auth::{AuditContext, Auth, AuthSettings, Principal, authenticate};
use crate::secret::Secret;

/// An application that responds with the authenticated principal.
struct AuthApp {
    harness: IssuerHarness,
    auth: Auth,
    router: Router,
}

impl AuthApp {
    async fn new() -> Self {
        Self::limiting_failures(None).await
    }

    async fn limiting_failures(failures_per_minute: Option<u32>) -> Self {
        let harness = IssuerHarness::new().await;
        let store = Arc::new(SqliteStore::memory(harness.clock.clone()).unwrap());
        let issuer = Issuer::new(settings(&harness.server.url), harness.clock.clone()).unwrap();
        let auth = Auth::with_issuer(
            store,
            Arc::new(Keyring::generate()),
            harness.clock.clone(),
            AuthSettings { require_keys: true, failures_per_minute, ..AuthSettings::default() },
            Some(issuer),
        );
        // Also creates the tenant `default`.
        auth.create_first_key().await.unwrap().unwrap();
        let router = Router::new()
            .route("/", get(async |Extension(caller): Extension<Principal>| format!("{caller:?}")))
            .layer(middleware::from_fn_with_state(auth.clone(), authenticate));
        Self { harness, auth, router }
    }

    async fn send(&self, bearer: &str) -> (Response<()>, String) {
        let request = Request::get("/").header(AUTHORIZATION, format!("Bearer {bearer}"));
        let request = request.body(Body::empty()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        (Response::from_parts(head, ()), String::from_utf8(body).unwrap())
    }

    async fn detail(&self, bearer: &str) -> (StatusCode, String) {
        let (head, body) = self.send(bearer).await;
        let problem: Value = serde_json::from_str(&body).unwrap();
        (head.status(), problem["detail"].as_str().unwrap().to_owned())
    }
}

#[tokio::test]
async fn token_subject_acts_for_its_tenant() {
    let app = AuthApp::new().await;
    let (head, body) = app.send(&app.harness.token(|_| {})).await;
    assert_eq!(head.status(), StatusCode::OK, "{body}");
    for said in
        ["tenant: TenantId(Name(\"default\"))", "Subject(\"ann\")", "key: None", "submit read"]
    {
        assert!(body.contains(said), "{said:?} is missing: {body}");
    }
}

#[tokio::test]
async fn invalid_token_is_rejected_with_its_defect_and_never_quoted() {
    let app = AuthApp::new().await;
    let token = app.harness.token(|c| c["aud"] = json!("somebody-else"));
    let (head, body) = app.send(&token).await;
    assert_eq!(head.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(
        head.headers()[WWW_AUTHENTICATE],
        "Bearer realm=\"longhaul\", error=\"invalid_token\""
    );
    assert!(body.contains("the token is for another audience"), "{body}");
    for part in token.split('.').chain(["somebody-else"]) {
        assert!(!body.contains(part), "{body}");
    }
}

#[tokio::test]
async fn invalid_tokens_are_limited_and_valid_ones_accepted() {
    let app = AuthApp::limiting_failures(Some(2)).await;
    let status = async |token: &str| app.send(token).await.0.status();
    let expired = app.harness.token(|c| c["exp"] = json!(0));
    assert_eq!(status(&expired).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(&expired).await, StatusCode::UNAUTHORIZED);
    let (head, body) = app.send(&expired).await;
    assert_eq!(head.status(), StatusCode::TOO_MANY_REQUESTS, "{body}");
    assert_eq!(head.headers()[RETRY_AFTER], "30");
    assert_eq!(status(&app.harness.token(|_| {})).await, StatusCode::OK);
    let other = app.harness.token(|c| c["tenant"] = json!("acme"));
    assert_eq!(status(&other).await, StatusCode::FORBIDDEN, "the token is valid");
}

#[tokio::test]
async fn token_of_an_unknown_tenant_is_rejected() {
    let app = AuthApp::new().await;
    let (status, detail) = app.detail(&app.harness.token(|c| c["tenant"] = json!("acme"))).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(detail, "unknown tenant \"acme\" in the token's claim \"tenant\"");
    let (status, detail) = app.detail(&app.harness.token(|c| c["tenant"] = json!(null))).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(detail, "the token's claim \"tenant\" names no tenant");
}

#[tokio::test]
async fn unverifiable_token_gets_503_instead_of_401() {
    let app = AuthApp::new().await;
    app.harness.server.be(Behaviour::Down);
    let token = app.harness.token(|_| {});
    let (head, body) = app.send(&token).await;
    assert_eq!(head.status(), StatusCode::SERVICE_UNAVAILABLE, "{body}");
    assert_eq!(head.headers()[RETRY_AFTER], "10");
}

#[tokio::test]
async fn tenant_rate_limit_applies_to_tokens() {
    let app = AuthApp::new().await;
    let tenant = TenantId::default();
    let limits = LimitsChange { requests_per_s: Some(Some(1)), ..LimitsChange::default() };
    let change = TenantChange { limits, ..TenantChange::default() };
    let entry = app.auth.audit_entry(&AuditContext::server(), &tenant, "x", "y", String::new());
    app.auth.accounts().change_tenant(&tenant, &change, &entry).await.unwrap().unwrap();
    let tokens = ["ann", "bob"].map(|sub| app.harness.token(|c| c["sub"] = json!(sub)));
    assert_eq!(app.send(&tokens[0]).await.0.status(), StatusCode::OK);
    assert_eq!(app.send(&tokens[1]).await.0.status(), StatusCode::TOO_MANY_REQUESTS);
    app.harness.pass(1);
    assert_eq!(app.send(&tokens[1]).await.0.status(), StatusCode::OK);
}

#[tokio::test]
async fn token_that_expires_in_decades_is_reauthenticated_for_a_day() {
    let app = AuthApp::new().await;
    let token = app.harness.token(|c| c["exp"] = json!(u64::MAX));
    let token = Secret::new(&token).unwrap();
    let again = async || app.auth.reauthenticate(Some(&token)).await;
    assert!(matches!(again().await, Some(Ok(_))));
    app.harness.clock.advance(std::time::Duration::from_hours(24));
    assert!(matches!(again().await, Some(Ok(_))), "within the leeway");
    app.harness.clock.advance(std::time::Duration::from_mins(1));
    let refused = again().await.unwrap().unwrap_err();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert!(refused.detail().contains("issued too long ago"), "{}", refused.detail());
}

#[tokio::test]
async fn api_keys_are_accepted_besides_tokens() {
    let app = AuthApp::new().await;
    let spec = crate::auth::KeySpec {
        tenant: TenantId::default(),
        name: "x".to_owned(),
        scopes: [longhaul::store::accounts::Scope::Read].into_iter().collect(),
        expires_at: None::<Timestamp>,
        requests_per_s: None,
    };
    let made = app.auth.create_key(&spec, &AuditContext::server()).await.unwrap().unwrap();
    assert_eq!(app.send(&made.text).await.0.status(), StatusCode::OK);
    for other in ["lh_a.b.c", "no-token", "a.b", "a.b.c.d"] {
        let (status, detail) = app.detail(other).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert_eq!(detail, "the API key is unknown, revoked or expired");
    }
}

#[tokio::test]
async fn token_is_reauthenticated_until_it_expires() {
    let app = AuthApp::new().await;
    let token = Secret::new(&app.harness.token(|_| {})).unwrap();
    let again = async || app.auth.reauthenticate(Some(&token)).await;
    assert!(matches!(again().await, Some(Ok(_))));
    app.harness.clock.advance(std::time::Duration::from_mins(59));
    assert!(matches!(again().await, Some(Ok(_))));
    app.harness.clock.advance(std::time::Duration::from_mins(2));
    let refused = again().await.unwrap().unwrap_err();
    assert_eq!(
        (refused.status(), refused.detail()),
        (StatusCode::UNAUTHORIZED, "the token has expired")
    );
}
