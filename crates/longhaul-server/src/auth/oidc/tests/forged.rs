//! Tokens that somebody made who should not have been able to.

use proptest::prelude::*;
use ring::hmac;
use serde_json::{Value, json};

use super::super::jwk::KeySet;
use super::super::jws::Unverified;
use super::super::testing::{Bench, Signer, part};
use super::{ALGORITHMS, TokenError, wrong};

fn parts(token: &str) -> [&str; 3] {
    let parts: Vec<&str> = token.split('.').collect();
    parts.try_into().unwrap()
}

fn header(alg: &str) -> Value {
    json!({"alg": alg, "kid": "one"})
}

#[tokio::test]
async fn unsigned_token_is_refused() {
    let bench = Bench::new().await;
    let token = bench.token(|_| {});
    let [_, payload, signature] = parts(&token);
    for none in ["none", "None", "NONE", ""] {
        let header = part(header(none).to_string().as_bytes());
        for signature in ["", signature] {
            let forged = format!("{header}.{payload}.{signature}");
            assert_eq!(wrong(&bench, &forged).await, TokenError::Algorithm);
        }
    }
    let [header, _, _] = parts(&token);
    assert_eq!(wrong(&bench, &format!("{header}.{payload}.")).await, TokenError::Signature);
}

#[tokio::test]
async fn public_key_is_no_shared_secret() {
    let signer = Signer::of("one", "RS256");
    let secrets = [signer.jwk().to_string(), signer.jwk()["n"].as_str().unwrap().to_owned()];
    let bench = Bench::signing(signer).await;
    let token = bench.token(|_| {});
    let [_, payload, _] = parts(&token);
    for (name, how) in [("HS256", hmac::HMAC_SHA256), ("HS512", hmac::HMAC_SHA512)] {
        for secret in &secrets {
            let message = format!("{}.{payload}", part(header(name).to_string().as_bytes()));
            let tag = hmac::sign(&hmac::Key::new(how, secret.as_bytes()), message.as_bytes());
            let forged = format!("{message}.{}", part(tag.as_ref()));
            assert_eq!(wrong(&bench, &forged).await, TokenError::Algorithm);
        }
    }
}

#[tokio::test]
async fn algorithm_must_be_that_of_the_key() {
    for of_key in ALGORITHMS {
        let bench = Bench::signing(Signer::of("one", of_key)).await;
        let token = bench.token(|_| {});
        let [_, payload, signature] = parts(&token);
        for named in ALGORITHMS.into_iter().filter(|named| *named != of_key) {
            let header = part(header(named).to_string().as_bytes());
            let forged = format!("{header}.{payload}.{signature}");
            assert_eq!(wrong(&bench, &forged).await, TokenError::UnfitKey, "{of_key} {named}");
        }
    }
}

#[tokio::test]
async fn key_that_names_no_algorithm_is_held_to_its_type() {
    let signer = Signer::of("one", "RS384");
    let mut jwk = signer.jwk();
    jwk.as_object_mut().unwrap().remove("alg");
    let bench = Bench::signing(signer).await;
    bench.server.publish_raw(vec![jwk]);
    assert!(bench.judge(&bench.token(|_| {})).await.is_ok());
    let other = Signer::of("one", "ES384");
    let forged = bench.token_by(&other, |_| {});
    assert_eq!(wrong(&bench, &forged).await, TokenError::UnfitKey);
}

#[tokio::test]
async fn changed_payload_is_noticed() {
    for algorithm in ALGORITHMS {
        let bench = Bench::signing(Signer::of("one", algorithm)).await;
        let (token, other) = (bench.token(|_| {}), bench.token(|c| c["tenant"] = json!("acme")));
        let ([header, _, signature], [_, payload, _]) = (parts(&token), parts(&other));
        let forged = format!("{header}.{payload}.{signature}");
        assert_eq!(wrong(&bench, &forged).await, TokenError::Signature, "{algorithm}");
    }
}

#[tokio::test]
async fn stranger_s_key_is_not_believed_under_any_name() {
    let bench = Bench::new().await;
    let same_name = bench.token_by(&Signer::ed25519("one"), |_| {});
    assert_eq!(wrong(&bench, &same_name).await, TokenError::Signature);
    let own_name = bench.token_by(&Signer::ed25519("mine"), |_| {});
    assert_eq!(wrong(&bench, &own_name).await, TokenError::UnknownKey);
    // A key that comes with the token, or an address where there is one, is nobody's.
    let stranger = Signer::ed25519("mine");
    let header = json!({"alg": "EdDSA", "kid": "mine", "jwk": stranger.jwk(), "jku": "http://x"});
    let forged = stranger.token_with(&header, &json!({"sub": "ann"}));
    assert_eq!(wrong(&bench, &forged).await, TokenError::UnknownKey);
}

#[tokio::test]
async fn token_without_a_key_s_name_is_of_the_only_one_that_fits() {
    let bench = Bench::new().await;
    let [_, payload, _] = parts(&bench.token(|_| {})).map(str::to_owned);
    let claims = super::super::jwk::decode(&payload).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    let nameless = bench.signer.token_with(&json!({"alg": "EdDSA"}), &claims);
    assert!(bench.judge(&nameless).await.is_ok());
    let two = Bench::signing(Signer::ed25519("one")).await;
    two.server.publish(&[&two.signer, &Signer::ed25519("two")]);
    assert_eq!(wrong(&two, &nameless).await, TokenError::UnknownKey);
}

#[tokio::test]
async fn extension_that_must_be_understood_is_not() {
    let bench = Bench::new().await;
    let header = json!({"alg": "EdDSA", "kid": "one", "crit": ["b64"], "b64": false});
    let token = bench.signer.token_with(&header, &json!({}));
    assert_eq!(wrong(&bench, &token).await, TokenError::Extension);
}

#[tokio::test]
async fn huge_token_is_not_even_read() {
    let bench = Bench::new().await;
    let token = bench.token(|c| c["padding"] = json!("x".repeat(13 << 10)));
    assert!(token.len() > 16 << 10);
    assert_eq!(wrong(&bench, &token).await, TokenError::TooLarge);
    assert_eq!(bench.server.asked(), 0);
}

#[tokio::test]
async fn what_is_no_jwt_is_refused() {
    let bench = Bench::new().await;
    let array = format!("{}.e30.AA", part(b"[]"));
    for text in ["", ".", "..", "a.b.c", "e30.e30.e30", "a.b.c.d", array.as_str(), "é.é.é"] {
        assert_eq!(wrong(&bench, text).await, TokenError::Malformed, "{text}");
    }
    let padded = format!("{}=", bench.token(|_| {}));
    assert_eq!(wrong(&bench, &padded).await, TokenError::Malformed);
}

proptest! {
    #[test]
    fn no_text_makes_it_stumble(text in "\\PC{0,200}") {
        prop_assert!(Unverified::parse(&text).is_err());
    }

    #[test]
    fn nothing_like_a_token_makes_it_stumble(text in "[A-Za-z0-9_-]{0,90}\\.[A-Za-z0-9_-]{0,90}\\.[A-Za-z0-9_-]{0,90}") {
        prop_assert!(Unverified::parse(&text).is_err());
    }

    #[test]
    fn no_keys_make_it_stumble(
        kty in "RSA|EC|OKP|oct",
        crv in "P-256|P-384|Ed25519|P-521",
        x in "[A-Za-z0-9_-]{0,90}",
        y in "[A-Za-z0-9_-]{0,90}",
        signature: Vec<u8>,
    ) {
        let jwk = json!({"kty": kty, "crv": crv, "x": x, "y": y, "n": x, "e": y});
        let body = json!({"keys": [jwk, 7, null, {}]}).to_string();
        if let Ok(keys) = KeySet::parse(body.as_bytes()) {
            for algorithm in ALGORITHMS {
                let algorithm = super::super::jwk::Algorithm::parse(algorithm).unwrap();
                if let super::super::Found::Key(key) = keys.find(None, algorithm) {
                    prop_assert!(!key.signed(algorithm, b"message", &signature));
                }
            }
        }
    }
}

#[tokio::test]
async fn one_wrong_character_anywhere_is_noticed() {
    let bench = Bench::new().await;
    let token = bench.token(|_| {});
    assert!(bench.judge(&token).await.is_ok());
    for place in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(bench.judge(&changed).await.is_err(), "{place}");
    }
}
