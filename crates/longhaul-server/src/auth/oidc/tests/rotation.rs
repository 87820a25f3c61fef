//! The issuer's keys: fetching, caching, rotation and outages.

use futures_util::future::join_all;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use super::super::testing::{BEGIN, Behaviour, IssuerHarness, LocalIssuer, Signer, settings};
use super::super::{Issuer, TokenVerifyError, check_issuer};
use super::{TokenError, wrong};

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

fn is_remembered(harness: &IssuerHarness, token: &str) -> bool {
    harness.issuer.cached(&Sha256::digest(token).into()).is_some()
}

#[tokio::test]
async fn concurrent_tokens_share_one_fetch_of_keys() {
    let harness = IssuerHarness::new().await;
    let tokens: Vec<String> =
        (0..20).map(|n| harness.token(|c| c["sub"] = json!(n.to_string()))).collect();
    let judged = join_all(tokens.iter().map(|token| harness.verify(token))).await;
    assert!(judged.iter().all(Result::is_ok), "{judged:?}");
    assert_eq!(harness.server.key_requests(), 1);
}

#[tokio::test]
async fn new_issuer_key_is_fetched_on_first_use() {
    let harness = IssuerHarness::new().await;
    harness.verify(&harness.token(|_| {})).await.unwrap();
    let second = Signer::ed25519("two");
    harness.server.publish(&[&harness.signer, &second]);
    let token = harness.token_by(&second, |_| {});
    assert_eq!(wrong(&harness, &token).await, TokenError::UnknownKey, "asked a moment ago");
    harness.pass(10);
    harness.verify(&token).await.unwrap();
    assert_eq!(harness.server.key_requests(), 2);
}

#[tokio::test]
async fn unknown_key_ids_do_not_flood_the_issuer() {
    let harness = IssuerHarness::new().await;
    let attacker = Signer::ed25519("mine");
    for _ in 0..5 {
        let tokens: Vec<String> = (0..20)
            .map(|n| harness.token_by(&attacker, |c| c["sub"] = json!(n.to_string())))
            .collect();
        join_all(tokens.iter().map(|token| harness.verify(token))).await;
        harness.pass(5);
    }
    assert_eq!(harness.server.key_requests(), 3, "at 0, 10 and 20 s");
}

#[tokio::test]
async fn disconnected_caller_does_not_cancel_the_fetch_of_keys() {
    let harness = IssuerHarness::new().await;
    let (token, mut held) = (harness.token(|_| {}), harness.issuer.keys.watch());
    {
        let mut asking = std::pin::pin!(harness.verify(&token));
        assert!(futures_util::poll!(&mut asking).is_pending());
    }
    held.wait_for(Option::is_some).await.unwrap();
    harness.verify(&token).await.unwrap();
    assert_eq!(harness.server.key_requests(), 1);
}

#[tokio::test]
async fn withdrawn_issuer_key_is_rejected_after_a_background_fetch() {
    let harness = IssuerHarness::new().await;
    let old = harness.token(|c| c["exp"] = json!(BEGIN.as_millis()));
    harness.verify(&old).await.unwrap();
    let second = Signer::ed25519("two");
    harness.server.publish(&[&second]);
    harness.pass(10 * MINUTE - 1);
    harness.verify(&old).await.unwrap();
    assert_eq!(harness.server.key_requests(), 1);
    harness.pass(1);
    let mut held = harness.issuer.keys.watch();
    held.mark_unchanged();
    assert!(is_remembered(&harness, &old));
    harness.verify(&old).await.unwrap();
    held.changed().await.unwrap();
    assert_eq!(harness.server.key_requests(), 2);
    assert!(!is_remembered(&harness, &old));
    harness.pass(10);
    assert_eq!(wrong(&harness, &old).await, TokenError::UnknownKey);
    harness.verify(&harness.token_by(&second, |_| {})).await.unwrap();
}

#[tokio::test]
async fn cached_keys_are_used_for_a_day_while_the_issuer_is_down() {
    let harness = IssuerHarness::new().await;
    let token = harness.token(|c| c["exp"] = json!(BEGIN.as_millis()));
    harness.verify(&token).await.unwrap();
    harness.server.be(Behaviour::Down);
    harness.pass(DAY - 1);
    harness.verify(&token).await.unwrap();
    harness.pass(11);
    assert_eq!(harness.verify(&token).await, Err(TokenVerifyError::NoKeys));
    harness.server.be(Behaviour::Well);
    harness.pass(10);
    harness.verify(&token).await.unwrap();
}

#[tokio::test]
async fn issuer_may_start_after_the_server() {
    let harness = IssuerHarness::new().await;
    harness.server.be(Behaviour::Down);
    let token = harness.token(|_| {});
    assert_eq!(harness.verify(&token).await, Err(TokenVerifyError::NoKeys));
    harness.server.be(Behaviour::Well);
    assert_eq!(harness.verify(&token).await, Err(TokenVerifyError::NoKeys), "asked a moment ago");
    harness.pass(10);
    harness.verify(&token).await.unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let unreachable =
        Issuer::new(settings(&format!("http://{gone}")), harness.clock.clone()).unwrap();
    assert_eq!(unreachable.verify(&token).await, Err(TokenVerifyError::NoKeys));
}

#[tokio::test]
async fn keys_of_another_issuer_are_rejected() {
    let (harness, other) = (IssuerHarness::new().await, LocalIssuer::start(&[]).await);
    let elsewhere = Behaviour::Elsewhere(format!("{}/moved", other.url));
    for behaviour in [Behaviour::Impostor, Behaviour::Endless, elsewhere] {
        harness.server.be(behaviour);
        assert_eq!(harness.verify(&harness.token(|_| {})).await, Err(TokenVerifyError::NoKeys));
        harness.pass(10);
    }
    harness.server.be(Behaviour::Elsewhere("/moved".to_owned()));
    harness.verify(&harness.token(|_| {})).await.unwrap();
}

#[tokio::test]
async fn jwks_url_overrides_discovery() {
    let harness = IssuerHarness::new().await;
    harness.server.be(Behaviour::Impostor);
    let mut given = settings(&harness.server.url);
    given.jwks_url = Some(format!("{}/keys", harness.server.url));
    assert_eq!(check_issuer(&given).await, Ok(1));
    let issuer = Issuer::new(given, harness.clock.clone()).unwrap();
    issuer.verify(&harness.token(|_| {})).await.unwrap();
}

#[tokio::test]
async fn keys_for_other_uses_are_ignored() {
    let harness = IssuerHarness::new().await;
    let with = |name: &str, value: serde_json::Value| {
        let mut jwk = harness.signer.jwk();
        jwk[name] = value;
        jwk
    };
    let useless = [
        with("use", json!("enc")),
        with("key_ops", json!(["sign"])),
        with("alg", json!("HS256")),
        with("kty", json!("oct")),
        with("x", json!("AA")),
        json!({}),
    ];
    harness.server.publish_raw(useless.to_vec());
    assert_eq!(harness.verify(&harness.token(|_| {})).await, Err(TokenVerifyError::NoKeys));
    harness.server.publish_raw([&useless[..], &[harness.signer.jwk()]].concat());
    harness.pass(10);
    harness.verify(&harness.token(|_| {})).await.unwrap();
}

#[tokio::test]
async fn verified_token_is_cached_for_five_minutes_and_not_past_its_expiry() {
    let harness = IssuerHarness::new().await;
    let long = harness.token(|_| {});
    let short = harness.token(|c| c["exp"] = json!(BEGIN.as_millis() / 1_000 + 30));
    for token in [&long, &short] {
        assert!(!is_remembered(&harness, token));
        harness.verify(token).await.unwrap();
        assert!(is_remembered(&harness, token));
    }
    harness.pass(30);
    assert!(is_remembered(&harness, &long) && !is_remembered(&harness, &short));
    harness.pass(60);
    assert_eq!(wrong(&harness, &short).await, TokenError::Expired);
    harness.pass(5 * MINUTE);
    assert!(!is_remembered(&harness, &long));
    harness.verify(&long).await.unwrap();
}
