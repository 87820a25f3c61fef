//! The issuer's keys: fetched, kept, exchanged, and not to be had.

use futures_util::future::join_all;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use super::super::testing::{BEGIN, Bench, LocalIssuer, Mood, Signer, settings};
use super::super::{Issuer, Unjudged, examine_issuer};
use super::{TokenError, wrong};

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

fn is_remembered(bench: &Bench, token: &str) -> bool {
    bench.issuer.recall(&Sha256::digest(token).into()).is_some()
}

#[tokio::test]
async fn keys_are_fetched_once_for_many_who_ask_at_the_same_time() {
    let bench = Bench::new().await;
    let tokens: Vec<String> =
        (0..20).map(|n| bench.token(|c| c["sub"] = json!(n.to_string()))).collect();
    let judged = join_all(tokens.iter().map(|token| bench.judge(token))).await;
    assert!(judged.iter().all(Result::is_ok), "{judged:?}");
    assert_eq!(bench.server.asked(), 1);
}

#[tokio::test]
async fn fresh_key_is_found_when_it_is_first_used() {
    let bench = Bench::new().await;
    bench.judge(&bench.token(|_| {})).await.unwrap();
    let second = Signer::ed25519("two");
    bench.server.publish(&[&bench.signer, &second]);
    let token = bench.token_by(&second, |_| {});
    assert_eq!(wrong(&bench, &token).await, TokenError::UnknownKey, "asked a moment ago");
    bench.pass(10);
    bench.judge(&token).await.unwrap();
    assert_eq!(bench.server.asked(), 2);
}

#[tokio::test]
async fn unknown_keys_do_not_flood_the_issuer() {
    let bench = Bench::new().await;
    let stranger = Signer::ed25519("mine");
    for _ in 0..5 {
        let tokens: Vec<String> = (0..20)
            .map(|n| bench.token_by(&stranger, |c| c["sub"] = json!(n.to_string())))
            .collect();
        join_all(tokens.iter().map(|token| bench.judge(token))).await;
        bench.pass(5);
    }
    assert_eq!(bench.server.asked(), 3, "at 0, 10 and 20 s");
}

#[tokio::test]
async fn caller_who_hangs_up_does_not_stop_the_fetching() {
    let bench = Bench::new().await;
    let (token, mut held) = (bench.token(|_| {}), bench.issuer.keys.watch());
    {
        let mut asking = std::pin::pin!(bench.judge(&token));
        assert!(futures_util::poll!(&mut asking).is_pending());
    }
    held.wait_for(Option::is_some).await.unwrap();
    bench.judge(&token).await.unwrap();
    assert_eq!(bench.server.asked(), 1);
}

#[tokio::test]
async fn withdrawn_key_is_refused_once_the_keys_were_fetched_behind_a_request() {
    let bench = Bench::new().await;
    let old = bench.token(|c| c["exp"] = json!(BEGIN.as_millis()));
    bench.judge(&old).await.unwrap();
    let second = Signer::ed25519("two");
    bench.server.publish(&[&second]);
    bench.pass(10 * MINUTE - 1);
    bench.judge(&old).await.unwrap();
    assert_eq!(bench.server.asked(), 1);
    bench.pass(1);
    let mut held = bench.issuer.keys.watch();
    held.mark_unchanged();
    assert!(is_remembered(&bench, &old));
    bench.judge(&old).await.unwrap();
    held.changed().await.unwrap();
    assert_eq!(bench.server.asked(), 2);
    assert!(!is_remembered(&bench, &old));
    bench.pass(10);
    assert_eq!(wrong(&bench, &old).await, TokenError::UnknownKey);
    bench.judge(&bench.token_by(&second, |_| {})).await.unwrap();
}

#[tokio::test]
async fn issuer_that_is_down_is_done_without_for_a_day() {
    let bench = Bench::new().await;
    let token = bench.token(|c| c["exp"] = json!(BEGIN.as_millis()));
    bench.judge(&token).await.unwrap();
    bench.server.be(Mood::Down);
    bench.pass(DAY - 1);
    bench.judge(&token).await.unwrap();
    bench.pass(11);
    assert_eq!(bench.judge(&token).await, Err(Unjudged::NoKeys));
    bench.server.be(Mood::Well);
    bench.pass(10);
    bench.judge(&token).await.unwrap();
}

#[tokio::test]
async fn issuer_may_come_up_after_the_server() {
    let bench = Bench::new().await;
    bench.server.be(Mood::Down);
    let token = bench.token(|_| {});
    assert_eq!(bench.judge(&token).await, Err(Unjudged::NoKeys));
    bench.server.be(Mood::Well);
    assert_eq!(bench.judge(&token).await, Err(Unjudged::NoKeys), "asked a moment ago");
    bench.pass(10);
    bench.judge(&token).await.unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = Issuer::new(settings(&format!("http://{gone}")), bench.clock.clone()).unwrap();
    assert_eq!(nobody.judge(&token).await, Err(Unjudged::NoKeys));
}

#[tokio::test]
async fn keys_are_taken_from_this_issuer_alone() {
    let (bench, other) = (Bench::new().await, LocalIssuer::start(&[]).await);
    let elsewhere = Mood::Elsewhere(format!("{}/moved", other.url));
    for mood in [Mood::Impostor, Mood::Endless, elsewhere] {
        bench.server.be(mood);
        assert_eq!(bench.judge(&bench.token(|_| {})).await, Err(Unjudged::NoKeys));
        bench.pass(10);
    }
    bench.server.be(Mood::Elsewhere("/moved".to_owned()));
    bench.judge(&bench.token(|_| {})).await.unwrap();
}

#[tokio::test]
async fn place_of_the_keys_can_be_given() {
    let bench = Bench::new().await;
    bench.server.be(Mood::Impostor);
    let mut given = settings(&bench.server.url);
    given.jwks_url = Some(format!("{}/keys", bench.server.url));
    assert_eq!(examine_issuer(&given).await, Ok(1));
    let issuer = Issuer::new(given, bench.clock.clone()).unwrap();
    issuer.judge(&bench.token(|_| {})).await.unwrap();
}

#[tokio::test]
async fn keys_for_other_uses_are_left_alone() {
    let bench = Bench::new().await;
    let with = |name: &str, value: serde_json::Value| {
        let mut jwk = bench.signer.jwk();
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
    bench.server.publish_raw(useless.to_vec());
    assert_eq!(bench.judge(&bench.token(|_| {})).await, Err(Unjudged::NoKeys));
    bench.server.publish_raw([&useless[..], &[bench.signer.jwk()]].concat());
    bench.pass(10);
    bench.judge(&bench.token(|_| {})).await.unwrap();
}

#[tokio::test]
async fn token_is_remembered_for_five_minutes_and_not_past_its_end() {
    let bench = Bench::new().await;
    let long = bench.token(|_| {});
    let short = bench.token(|c| c["exp"] = json!(BEGIN.as_millis() / 1_000 + 30));
    for token in [&long, &short] {
        assert!(!is_remembered(&bench, token));
        bench.judge(token).await.unwrap();
        assert!(is_remembered(&bench, token));
    }
    bench.pass(30);
    assert!(is_remembered(&bench, &long) && !is_remembered(&bench, &short));
    bench.pass(60);
    assert_eq!(wrong(&bench, &short).await, TokenError::Expired);
    bench.pass(5 * MINUTE);
    assert!(!is_remembered(&bench, &long));
    bench.judge(&long).await.unwrap();
}
