mod forged;
mod middleware;
mod rotation;

use std::time::Duration;

use serde_json::{Value, json};

use super::testing::{BEGIN, IssuerHarness, Signer};
use super::{TokenError, TokenVerifyError};

const ALGORITHMS: [&str; 7] = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"];

/// Returns the defect of a token.
async fn wrong(harness: &IssuerHarness, text: &str) -> TokenError {
    match harness.verify(text).await {
        Err(TokenVerifyError::Bad(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Returns the defect of a token with changed claims.
async fn claimed(harness: &IssuerHarness, change: impl FnOnce(&mut Value)) -> TokenError {
    wrong(harness, &harness.token(change)).await
}

fn without(name: &str) -> impl FnOnce(&mut Value) {
    move |claims| drop(claims.as_object_mut().unwrap().remove(name))
}

#[tokio::test]
async fn token_of_every_supported_algorithm_is_accepted() {
    for algorithm in ALGORITHMS {
        let harness = IssuerHarness::signing(Signer::of("one", algorithm)).await;
        let claims = harness.verify(&harness.token(|_| {})).await.unwrap();
        assert_eq!(claims.subject, "ann", "{algorithm}");
        assert_eq!(claims.tenant.unwrap().as_str(), "default");
        assert_eq!(format!("{:?}", claims.scopes), "submit read");
    }
}

#[tokio::test]
async fn token_of_another_issuer_or_audience_is_rejected() {
    let harness = IssuerHarness::new().await;
    let slashed = format!("{}/", harness.server.url);
    assert_eq!(claimed(&harness, |c| c["iss"] = json!(slashed)).await, TokenError::Issuer);
    assert_eq!(claimed(&harness, without("iss")).await, TokenError::Issuer);
    for aud in [json!("jobs2"), json!("jobs other"), json!(["other"]), json!([]), json!(null)] {
        assert_eq!(claimed(&harness, |c| c["aud"] = aud).await, TokenError::Audience);
    }
    assert_eq!(claimed(&harness, without("aud")).await, TokenError::Audience);
    let among = harness.token(|c| c["aud"] = json!(["other", "jobs"]));
    assert!(harness.verify(&among).await.is_ok());
}

#[tokio::test]
async fn token_is_rejected_outside_of_its_validity() {
    let (harness, now) = (IssuerHarness::new().await, BEGIN.as_millis() / 1_000);
    for (exp, is_good) in [(now + 1, true), (now - 59, true), (now - 60, false), (0, false)] {
        let judged = harness.verify(&harness.token(|c| c["exp"] = json!(exp))).await;
        assert_eq!(judged.is_ok(), is_good, "{exp}");
    }
    for name in ["nbf", "iat"] {
        for (from, is_good) in [(now, true), (now + 60, true), (now + 61, false)] {
            let judged = harness.verify(&harness.token(|c| c[name] = json!(from))).await;
            assert_eq!(judged.is_ok(), is_good, "{name} {from}");
        }
    }
    assert_eq!(claimed(&harness, |c| c["exp"] = json!(0)).await, TokenError::Expired);
    assert_eq!(claimed(&harness, |c| c["nbf"] = json!(now + 99)).await, TokenError::NotYetValid);
    assert!(harness.verify(&harness.token(|c| c["exp"] = json!(1e300))).await.is_ok());
    assert!(harness.verify(&harness.token(without("iat"))).await.is_ok());
}

#[tokio::test]
async fn token_is_accepted_for_a_day_after_its_issue_whatever_its_expiry() {
    let (harness, now) = (IssuerHarness::new().await, BEGIN.as_millis() / 1_000);
    let (day, decades) = (86_400, now + 30 * 366 * 86_400);
    let expiries = [json!(decades), json!(i64::MAX), json!(u64::MAX), json!(1e18), json!(1e300)];
    for exp in expiries {
        for (age, is_good) in [(0, true), (day - 1, true), (day + 59, true), (day + 60, false)] {
            let token = harness.token(|c| {
                c["exp"] = exp.clone();
                c["iat"] = json!(now - age);
            });
            match harness.verify(&token).await {
                Ok(claims) => {
                    let last = BEGIN.after(Duration::from_hours(24));
                    assert!(is_good && claims.expires_at <= last, "{exp} {age}: {claims:?}");
                }
                Err(error) => {
                    assert_eq!(error, TokenVerifyError::Bad(TokenError::TooOld));
                    assert!(!is_good, "{exp} {age}");
                }
            }
        }
    }
    for iat in [json!(i64::MIN), json!(0), json!(-1e300)] {
        let token = harness.token(|c| {
            c["exp"] = json!(i64::MAX);
            c["iat"] = iat;
        });
        assert_eq!(wrong(&harness, &token).await, TokenError::TooOld);
    }
}

#[tokio::test]
async fn token_without_time_of_issue_must_expire_within_a_day() {
    let (harness, now) = (IssuerHarness::new().await, BEGIN.as_millis() / 1_000);
    let token = |exp: i64, nbf: Option<i64>| {
        harness.token(|c| {
            c.as_object_mut().unwrap().remove("iat");
            c["exp"] = json!(exp);
            if let Some(nbf) = nbf {
                c["nbf"] = json!(nbf);
            }
        })
    };
    assert!(harness.verify(&token(now + 86_400, None)).await.is_ok());
    for exp in [now + 86_401, i64::MAX] {
        assert_eq!(wrong(&harness, &token(exp, None)).await, TokenError::MissingClaim("iat"));
        assert!(harness.verify(&token(exp, Some(now))).await.is_ok());
        assert_eq!(wrong(&harness, &token(exp, Some(0))).await, TokenError::TooOld);
    }
}

#[tokio::test]
async fn token_without_subject_or_expiry_is_rejected() {
    let harness = IssuerHarness::new().await;
    assert_eq!(claimed(&harness, without("exp")).await, TokenError::MissingClaim("exp"));
    assert_eq!(claimed(&harness, without("sub")).await, TokenError::MissingClaim("sub"));
    for sub in [json!(""), json!(7), json!("a\u{0}b"), json!("x".repeat(256))] {
        assert_eq!(claimed(&harness, |c| c["sub"] = sub).await, TokenError::MissingClaim("sub"));
    }
    for name in ["exp", "nbf", "iat"] {
        let error = claimed(&harness, |c| c[name] = json!("tomorrow")).await;
        assert_eq!(error, TokenError::MissingClaim(name));
    }
}

#[tokio::test]
async fn token_scopes_are_words_or_a_list_and_foreign_ones_are_ignored() {
    let harness = IssuerHarness::new().await;
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
        let token = harness.token(|c| c["scope"] = scope.clone());
        assert_eq!(format!("{:?}", harness.verify(&token).await.unwrap().scopes), read, "{scope}");
    }
}

#[tokio::test]
async fn token_tenant_must_be_a_valid_id() {
    let harness = IssuerHarness::new().await;
    for tenant in [json!(""), json!(["default"]), json!(7), json!("a b"), json!(null)] {
        let token = harness.token(|c| c["tenant"] = tenant);
        assert_eq!(harness.verify(&token).await.unwrap().tenant, None);
    }
}
