//! Forged tokens.

use proptest::prelude::*;
use ring::hmac;
use serde_json::{Value, json};

use super::super::jwk::KeySet;
use super::super::jws::UnverifiedToken;
use super::super::testing::{IssuerHarness, Signer, part};
use super::{ALGORITHMS, TokenError, wrong};

fn parts(token: &str) -> [&str; 3] {
    let parts: Vec<&str> = token.split('.').collect();
    parts.try_into().unwrap()
}

fn header(alg: &str) -> Value {
    json!({"alg": alg, "kid": "one"})
}

#[tokio::test]
async fn unsigned_token_is_rejected() {
    let harness = IssuerHarness::new().await;
    let token = harness.token(|_| {});
    let [_, payload, signature] = parts(&token);
    for none in ["none", "None", "NONE", ""] {
        let header = part(header(none).to_string().as_bytes());
        for signature in ["", signature] {
            let forged = format!("{header}.{payload}.{signature}");
            assert_eq!(wrong(&harness, &forged).await, TokenError::Algorithm);
        }
    }
    let [header, _, _] = parts(&token);
    assert_eq!(wrong(&harness, &format!("{header}.{payload}.")).await, TokenError::Signature);
}

#[tokio::test]
async fn public_key_is_not_accepted_as_a_shared_secret() {
    let signer = Signer::of("one", "RS256");
    let secrets = [signer.jwk().to_string(), signer.jwk()["n"].as_str().unwrap().to_owned()];
    let harness = IssuerHarness::signing(signer).await;
    let token = harness.token(|_| {});
    let [_, payload, _] = parts(&token);
    for (name, how) in [("HS256", hmac::HMAC_SHA256), ("HS512", hmac::HMAC_SHA512)] {
        for secret in &secrets {
            let message = format!("{}.{payload}", part(header(name).to_string().as_bytes()));
            let tag = hmac::sign(&hmac::Key::new(how, secret.as_bytes()), message.as_bytes());
            let forged = format!("{message}.{}", part(tag.as_ref()));
            assert_eq!(wrong(&harness, &forged).await, TokenError::Algorithm);
        }
    }
}

#[tokio::test]
async fn token_algorithm_must_match_its_key() {
    for of_key in ALGORITHMS {
        let harness = IssuerHarness::signing(Signer::of("one", of_key)).await;
        let token = harness.token(|_| {});
        let [_, payload, signature] = parts(&token);
        for named in ALGORITHMS.into_iter().filter(|named| *named != of_key) {
            let header = part(header(named).to_string().as_bytes());
            let forged = format!("{header}.{payload}.{signature}");
            assert_eq!(
                wrong(&harness, &forged).await,
                TokenError::WrongAlgorithm,
                "{of_key} {named}"
            );
        }
    }
}

#[tokio::test]
async fn key_without_algorithm_is_restricted_to_its_type() {
    let signer = Signer::of("one", "RS384");
    let mut jwk = signer.jwk();
    jwk.as_object_mut().unwrap().remove("alg");
    let harness = IssuerHarness::signing(signer).await;
    harness.server.publish_raw(vec![jwk]);
    assert!(harness.verify(&harness.token(|_| {})).await.is_ok());
    let other = Signer::of("one", "ES384");
    let forged = harness.token_by(&other, |_| {});
    assert_eq!(wrong(&harness, &forged).await, TokenError::WrongAlgorithm);
}

#[tokio::test]
async fn token_with_changed_payload_is_rejected() {
    for algorithm in ALGORITHMS {
        let harness = IssuerHarness::signing(Signer::of("one", algorithm)).await;
        let (token, other) =
            (harness.token(|_| {}), harness.token(|c| c["tenant"] = json!("acme")));
        let ([header, _, signature], [_, payload, _]) = (parts(&token), parts(&other));
        let forged = format!("{header}.{payload}.{signature}");
        assert_eq!(wrong(&harness, &forged).await, TokenError::Signature, "{algorithm}");
    }
}

#[tokio::test]
async fn stranger_s_key_is_not_believed_under_any_name() {
    let harness = IssuerHarness::new().await;
    let same_name = harness.token_by(&Signer::ed25519("one"), |_| {});
    assert_eq!(wrong(&harness, &same_name).await, TokenError::Signature);
    let own_name = harness.token_by(&Signer::ed25519("mine"), |_| {});
    assert_eq!(wrong(&harness, &own_name).await, TokenError::UnknownKey);
    // A key or key URL inside of the token is ignored.
    let attacker = Signer::ed25519("mine");
    let header = json!({"alg": "EdDSA", "kid": "mine", "jwk": attacker.jwk(), "jku": "http://x"});
    let forged = attacker.token_with(&header, &json!({"sub": "ann"}));
    assert_eq!(wrong(&harness, &forged).await, TokenError::UnknownKey);
}

#[tokio::test]
async fn token_without_key_id_uses_the_only_matching_key() {
    let harness = IssuerHarness::new().await;
    let [_, payload, _] = parts(&harness.token(|_| {})).map(str::to_owned);
    let claims = super::super::jwk::decode(&payload).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    let nameless = harness.signer.token_with(&json!({"alg": "EdDSA"}), &claims);
    assert!(harness.verify(&nameless).await.is_ok());
    let two = IssuerHarness::signing(Signer::ed25519("one")).await;
    two.server.publish(&[&two.signer, &Signer::ed25519("two")]);
    assert_eq!(wrong(&two, &nameless).await, TokenError::UnknownKey);
}

#[tokio::test]
async fn token_with_critical_extension_is_rejected() {
    let harness = IssuerHarness::new().await;
    let header = json!({"alg": "EdDSA", "kid": "one", "crit": ["b64"], "b64": false});
    let token = harness.signer.token_with(&header, &json!({}));
    assert_eq!(wrong(&harness, &token).await, TokenError::CriticalExtension);
}

#[tokio::test]
async fn oversized_token_is_rejected_unread() {
    let harness = IssuerHarness::new().await;
    let token = harness.token(|c| c["padding"] = json!("x".repeat(13 << 10)));
    assert!(token.len() > 16 << 10);
    assert_eq!(wrong(&harness, &token).await, TokenError::TooLarge);
    assert_eq!(harness.server.key_requests(), 0);
}

#[tokio::test]
async fn text_that_is_no_jwt_is_rejected() {
    let harness = IssuerHarness::new().await;
    let array = format!("{}.e30.AA", part(b"[]"));
    for text in ["", ".", "..", "a.b.c", "e30.e30.e30", "a.b.c.d", array.as_str(), "é.é.é"] {
        assert_eq!(wrong(&harness, text).await, TokenError::Malformed, "{text}");
    }
    let padded = format!("{}=", harness.token(|_| {}));
    assert_eq!(wrong(&harness, &padded).await, TokenError::Malformed);
}

proptest! {
    #[test]
    fn arbitrary_text_is_no_token(text in "\\PC{0,200}") {
        prop_assert!(UnverifiedToken::parse(&text).is_err());
    }

    #[test]
    fn text_in_the_form_of_a_token_is_rejected(text in "[A-Za-z0-9_-]{0,90}\\.[A-Za-z0-9_-]{0,90}\\.[A-Za-z0-9_-]{0,90}") {
        prop_assert!(UnverifiedToken::parse(&text).is_err());
    }

    #[test]
    fn arbitrary_keys_do_not_panic(
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
                if let super::super::KeyLookup::Key(key) = keys.find(None, algorithm) {
                    prop_assert!(!key.verify(algorithm, b"message", &signature));
                }
            }
        }
    }
}

#[tokio::test]
async fn token_with_one_wrong_character_is_rejected() {
    let harness = IssuerHarness::new().await;
    let token = harness.token(|_| {});
    assert!(harness.verify(&token).await.is_ok());
    for place in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(harness.verify(&changed).await.is_err(), "{place}");
    }
}
