//! What callers with tokens are told.

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
use super::super::testing::{Bench, Mood, settings};
use crate::auth::{Auth, AuthSettings, Deed, Principal, admit};
use crate::secret::Secret;

/// A door that tells those who are let in who they are.
struct Door {
    bench: Bench,
    auth: Auth,
    router: Router,
}

impl Door {
    async fn new() -> Self {
        let bench = Bench::new().await;
        let store = Arc::new(SqliteStore::memory(bench.clock.clone()).unwrap());
        let issuer = Issuer::new(settings(&bench.server.url), bench.clock.clone()).unwrap();
        let auth = Auth::with_issuer(
            store,
            Arc::new(Keyring::generate()),
            bench.clock.clone(),
            AuthSettings { require_keys: true, ..AuthSettings::default() },
            Some(issuer),
        );
        // Makes the tenant `default`, too.
        auth.create_first_key().await.unwrap().unwrap();
        let router = Router::new()
            .route("/", get(async |Extension(caller): Extension<Principal>| format!("{caller:?}")))
            .layer(middleware::from_fn_with_state(auth.clone(), admit));
        Self { bench, auth, router }
    }

    async fn knock(&self, bearer: &str) -> (Response<()>, String) {
        let request = Request::get("/").header(AUTHORIZATION, format!("Bearer {bearer}"));
        let request = request.body(Body::empty()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        (Response::from_parts(head, ()), String::from_utf8(body).unwrap())
    }

    async fn detail(&self, bearer: &str) -> (StatusCode, String) {
        let (head, body) = self.knock(bearer).await;
        let problem: Value = serde_json::from_str(&body).unwrap();
        (head.status(), problem["detail"].as_str().unwrap().to_owned())
    }
}

#[tokio::test]
async fn token_s_subject_acts_for_the_tenant_that_it_names() {
    let door = Door::new().await;
    let (head, body) = door.knock(&door.bench.token(|_| {})).await;
    assert_eq!(head.status(), StatusCode::OK, "{body}");
    for said in
        ["tenant: TenantId(Name(\"default\"))", "Subject(\"ann\")", "key: None", "submit read"]
    {
        assert!(body.contains(said), "{said:?} is missing: {body}");
    }
}

#[tokio::test]
async fn bad_token_is_told_what_is_wrong_with_it_and_nothing_of_itself() {
    let door = Door::new().await;
    let token = door.bench.token(|c| c["aud"] = json!("somebody-else"));
    let (head, body) = door.knock(&token).await;
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
async fn issuer_makes_no_tenants() {
    let door = Door::new().await;
    let (status, detail) = door.detail(&door.bench.token(|c| c["tenant"] = json!("acme"))).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        detail,
        "there is no tenant \"acme\" here, which the token's claim \"tenant\" names"
    );
    let (status, detail) = door.detail(&door.bench.token(|c| c["tenant"] = json!(null))).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(detail, "the token's claim \"tenant\" names no tenant");
}

#[tokio::test]
async fn token_that_nobody_can_judge_is_not_called_bad() {
    let door = Door::new().await;
    door.bench.server.be(Mood::Down);
    let token = door.bench.token(|_| {});
    let (head, body) = door.knock(&token).await;
    assert_eq!(head.status(), StatusCode::SERVICE_UNAVAILABLE, "{body}");
    assert_eq!(head.headers()[RETRY_AFTER], "10");
}

#[tokio::test]
async fn tenant_s_rate_holds_for_tokens() {
    let door = Door::new().await;
    let tenant = TenantId::default();
    let limits = LimitsChange { requests_per_s: Some(Some(1)), ..LimitsChange::default() };
    let change = TenantChange { limits, ..TenantChange::default() };
    let entry = door.auth.entry(&Deed::server(), &tenant, "x", "y", String::new());
    door.auth.accounts().change_tenant(&tenant, &change, &entry).await.unwrap().unwrap();
    let tokens = ["ann", "bob"].map(|sub| door.bench.token(|c| c["sub"] = json!(sub)));
    assert_eq!(door.knock(&tokens[0]).await.0.status(), StatusCode::OK);
    assert_eq!(door.knock(&tokens[1]).await.0.status(), StatusCode::TOO_MANY_REQUESTS);
    door.bench.pass(1);
    assert_eq!(door.knock(&tokens[1]).await.0.status(), StatusCode::OK);
}

#[tokio::test]
async fn our_own_keys_go_on_being_good() {
    let door = Door::new().await;
    let wish = crate::auth::KeyWish {
        tenant: TenantId::default(),
        name: "x".to_owned(),
        scopes: [longhaul::store::accounts::Scope::Read].into_iter().collect(),
        expires_at: None::<Timestamp>,
        requests_per_s: None,
    };
    let made = door.auth.create_key(&wish, &Deed::server()).await.unwrap().unwrap();
    assert_eq!(door.knock(&made.text).await.0.status(), StatusCode::OK);
    for other in ["lh_a.b.c", "no-token", "a.b", "a.b.c.d"] {
        let (status, detail) = door.detail(other).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert_eq!(detail, "the key is not known here, was revoked or has expired");
    }
}

#[tokio::test]
async fn whoever_was_let_in_by_a_token_is_judged_again_until_it_ends() {
    let door = Door::new().await;
    let token = Secret::new(&door.bench.token(|_| {})).unwrap();
    let again = async || door.auth.again(Some(&token)).await;
    assert!(matches!(again().await, Some(Ok(_))));
    door.bench.clock.advance(std::time::Duration::from_mins(59));
    assert!(matches!(again().await, Some(Ok(_))));
    door.bench.clock.advance(std::time::Duration::from_mins(2));
    let refused = again().await.unwrap().unwrap_err();
    assert_eq!(
        (refused.status(), refused.detail()),
        (StatusCode::UNAUTHORIZED, "the token has expired")
    );
}
