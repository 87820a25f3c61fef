mod door;
mod forged;
mod rotation;

use serde_json::{Value, json};

use super::testing::{BEGIN, Bench, Signer};
use super::{TokenError, Unjudged};

const ALGORITHMS: [&str; 7] = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"];

/// What is wrong with a token.
async fn wrong(bench: &Bench, text: &str) -> TokenError {
    match bench.judge(text).await {
        Err(Unjudged::Bad(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// What is wrong with a token whose claims are changed so.
async fn claimed(bench: &Bench, change: impl FnOnce(&mut Value)) -> TokenError {
    wrong(bench, &bench.token(change)).await
}

fn without(name: &str) -> impl FnOnce(&mut Value) {
    move |claims| drop(claims.as_object_mut().unwrap().remove(name))
}

#[tokio::test]
async fn token_of_every_algorithm_is_believed() {
    for algorithm in ALGORITHMS {
        let bench = Bench::signing(Signer::of("one", algorithm)).await;
        let claims = bench.judge(&bench.token(|_| {})).await.unwrap();
        assert_eq!(claims.subject, "ann", "{algorithm}");
        assert_eq!(claims.tenant.unwrap().as_str(), "default");
        assert_eq!(format!("{:?}", claims.scopes), "submit read");
    }
}

#[tokio::test]
async fn token_of_another_issuer_or_for_somebody_else_is_refused() {
    let bench = Bench::new().await;
    let slashed = format!("{}/", bench.server.url);
    assert_eq!(claimed(&bench, |c| c["iss"] = json!(slashed)).await, TokenError::Issuer);
    assert_eq!(claimed(&bench, without("iss")).await, TokenError::Issuer);
    for aud in [json!("jobs2"), json!("jobs other"), json!(["other"]), json!([]), json!(null)] {
        assert_eq!(claimed(&bench, |c| c["aud"] = aud).await, TokenError::Audience);
    }
    assert_eq!(claimed(&bench, without("aud")).await, TokenError::Audience);
    let among = bench.token(|c| c["aud"] = json!(["other", "jobs"]));
    assert!(bench.judge(&among).await.is_ok());
}

#[tokio::test]
async fn token_has_its_time() {
    let (bench, now) = (Bench::new().await, BEGIN.as_millis() / 1_000);
    for (exp, is_good) in [(now + 1, true), (now - 59, true), (now - 60, false), (0, false)] {
        let judged = bench.judge(&bench.token(|c| c["exp"] = json!(exp))).await;
        assert_eq!(judged.is_ok(), is_good, "{exp}");
    }
    for name in ["nbf", "iat"] {
        for (from, is_good) in [(now, true), (now + 60, true), (now + 61, false)] {
            let judged = bench.judge(&bench.token(|c| c[name] = json!(from))).await;
            assert_eq!(judged.is_ok(), is_good, "{name} {from}");
        }
    }
    assert_eq!(claimed(&bench, |c| c["exp"] = json!(0)).await, TokenError::Expired);
    assert_eq!(claimed(&bench, |c| c["nbf"] = json!(now + 99)).await, TokenError::NotYet);
    assert!(bench.judge(&bench.token(|c| c["exp"] = json!(1e300))).await.is_ok());
    assert!(bench.judge(&bench.token(without("iat"))).await.is_ok());
}

#[tokio::test]
async fn token_must_say_who_and_until_when() {
    let bench = Bench::new().await;
    assert_eq!(claimed(&bench, without("exp")).await, TokenError::Without("exp"));
    assert_eq!(claimed(&bench, without("sub")).await, TokenError::Without("sub"));
    for sub in [json!(""), json!(7), json!("a\u{0}b"), json!("x".repeat(256))] {
        assert_eq!(claimed(&bench, |c| c["sub"] = sub).await, TokenError::Without("sub"));
    }
    for name in ["exp", "nbf", "iat"] {
        let error = claimed(&bench, |c| c[name] = json!("tomorrow")).await;
        assert_eq!(error, TokenError::Without(name));
    }
}

#[tokio::test]
async fn scopes_are_words_or_a_list_and_others_are_not_ours() {
    let bench = Bench::new().await;
    for (scope, read) in [
        (json!("longhaul:work"), "work"),
        (json!("longhaul:admin  longhaul:read"), "read admin"),
        (json!(["longhaul:submit", "mail", 7]), "submit"),
        (json!("submit read admin"), ""),
        (json!(["longhaul:submit longhaul:admin"]), ""),
        (json!("longhaul:everything"), ""),
        (json!({"longhaul:admin": true}), ""),
        (json!(null), ""),
    ] {
        let token = bench.token(|c| c["scope"] = scope.clone());
        assert_eq!(format!("{:?}", bench.judge(&token).await.unwrap().scopes), read, "{scope}");
    }
}

#[tokio::test]
async fn tenant_is_a_name_or_nobody() {
    let bench = Bench::new().await;
    for tenant in [json!(""), json!(["default"]), json!(7), json!("a b"), json!(null)] {
        let token = bench.token(|c| c["tenant"] = tenant);
        assert_eq!(bench.judge(&token).await.unwrap().tenant, None);
    }
}
