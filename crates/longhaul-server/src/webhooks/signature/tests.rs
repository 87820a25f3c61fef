//! Against the standard's own implementation, in both directions.

use longhaul::Clock;
use proptest::prelude::*;
use standardwebhooks::Webhook;

use super::*;

const BODY: &[u8] = br#"{"type":"job.completed","data":{}}"#;
const DELIVERY: &str = "msg_01KA3V8J5T0000000000000000";

fn secret(fill: u8) -> SigningSecret {
    format!("whsec_{}", BASE64.encode([fill; 32])).parse().unwrap()
}

fn signed(now: Timestamp, secrets: &[SigningSecret]) -> HeaderMap {
    headers(DELIVERY, now, BODY, secrets).unwrap().into_iter().collect()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn theirs(secret: &SigningSecret) -> Webhook {
    Webhook::new(&secret.expose()).unwrap()
}

#[test]
fn standards_own_library_believes_what_we_sign() {
    let now = Clock::system().now();
    let (old, new) = (SigningSecret::generate(), SigningSecret::generate());
    let headers = signed(now, &[old.clone(), new.clone()]);
    assert!(theirs(&old).verify(BODY, &headers).is_ok());
    assert!(theirs(&new).verify(BODY, &headers).is_ok());
    assert!(theirs(&secret(9)).verify(BODY, &headers).is_err());
    assert!(theirs(&new).verify(b"{}", &headers).is_err());
}

#[test]
fn what_the_standards_own_library_signs_is_believed() {
    let secret = SigningSecret::generate();
    let signature = theirs(&secret).sign(DELIVERY, 1_763_000_000, BODY).unwrap();
    let mut headers = signed(at(1_763_000_000), &[]);
    headers.insert(SIGNATURE, signature.parse().unwrap());
    assert_eq!(verify(&headers, BODY, &[secret], at(1_763_000_000)), Ok(()));
}

#[test]
fn both_sign_alike_also_in_the_standards_own_example() {
    let secret: SigningSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
    let body = br#"{"test": 2432232314}"#;
    let fields = headers("msg_p5jXN8AQM9LWM0D4loKWxJek", at(1_614_265_330), body, &[secret]);
    let shown = fields.unwrap().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    insta::assert_snapshot!(shown.join("\n"), @r"
    webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek
    webhook-timestamp: 1614265330
    webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=
    ");
}

#[test]
fn one_good_signature_by_one_of_the_secrets_is_enough() {
    let (one, two, three) = (secret(1), secret(2), secret(3));
    let now = at(1_763_000_000);
    let headers = signed(now, &[one.clone(), two.clone()]);
    let checked = |secrets: &[SigningSecret]| verify(&headers, BODY, secrets, now);
    assert_eq!(checked(&[one]), Ok(()));
    assert_eq!(checked(&[three.clone(), two]), Ok(()));
    assert_eq!(checked(&[three]), Err(VerifyError::Forged));
    assert_eq!(checked(&[]), Err(VerifyError::Forged));
    assert_eq!(verify(&headers, b"", &[secret(1)], now), Err(VerifyError::Forged));
}

#[test]
fn every_part_is_signed() {
    let now = at(1_763_000_000);
    let change = |name: HeaderName, value: &'static str| {
        let mut headers = signed(now, &[secret(1)]);
        headers.insert(name, HeaderValue::from_static(value));
        verify(&headers, BODY, &[secret(1)], now)
    };
    assert_eq!(change(ID, "msg_other"), Err(VerifyError::Forged));
    assert_eq!(change(TIMESTAMP, "1763000001"), Err(VerifyError::Forged));
    assert_eq!(change(TIMESTAMP, "soon"), Err(VerifyError::Malformed("webhook-timestamp")));
    for nothing in ["", "v1", "v1,", "v2,AAAA", "v1,*", "v1a,AAAA"] {
        let doubt = change(SIGNATURE, nothing).unwrap_err();
        assert!(matches!(doubt, VerifyError::Malformed(_) | VerifyError::Forged), "{nothing}");
    }
    for name in [ID, TIMESTAMP, SIGNATURE] {
        let mut headers = signed(now, &[secret(1)]);
        headers.remove(&name);
        let doubt = verify(&headers, BODY, &[secret(1)], now).unwrap_err();
        assert!(doubt.to_string().contains(name.as_str()), "{doubt}");
    }
}

#[test]
fn signature_is_good_for_five_minutes_either_way() {
    let headers = signed(at(1_763_000_000), &[secret(1)]);
    for (off, outcome) in [
        (300, Ok(())),
        (-300, Ok(())),
        (301, Err(VerifyError::Stale)),
        (-301, Err(VerifyError::Stale)),
    ] {
        let now = at(1_763_000_000 + off);
        assert_eq!(verify(&headers, BODY, &[secret(1)], now), outcome, "{off}");
    }
}

#[test]
fn secret_is_24_to_64_bytes_of_base64_and_reads_back() {
    for bytes in [24, 31, 32, 33, 64] {
        let text = format!("whsec_{}", BASE64.encode(vec![7; bytes]));
        let secret: SigningSecret = text.parse().unwrap();
        assert_eq!(*secret.expose(), text);
        let without_padding = text.trim_end_matches('=').parse::<SigningSecret>().unwrap();
        assert_eq!(*without_padding.expose(), text);
    }
    for bytes in [0, 1, 23, 65] {
        let text = format!("whsec_{}", BASE64.encode(vec![7; bytes]));
        assert_eq!(text.parse::<SigningSecret>().unwrap_err(), BadSecret::Length(bytes));
    }
    let errors = ["", "hush", "whsec_hush!", "whsec_aHVzaA=="]
        .map(|text| text.parse::<SigningSecret>().unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"), @"
    a signing secret must begin with whsec_
    a signing secret must begin with whsec_
    a signing secret must be base64 after whsec_
    a signing secret must have 24 to 64 bytes, not 4
    ");
}

#[test]
fn fresh_secrets_differ_and_show_nothing() {
    let (one, two) = (SigningSecret::generate(), SigningSecret::generate());
    assert_ne!(*one.expose(), *two.expose());
    assert_eq!(format!("{one:?}"), "whsec_***");
}

#[test]
fn id_that_could_pass_for_another_part_is_not_signed() {
    let long = "a".repeat(256);
    for id in ["", "a.b", "a b", "a\r\nx: y", "ä", &long] {
        assert_eq!(headers(id, at(1), BODY, &[secret(1)]).unwrap_err(), BadId, "{id}");
    }
}

proptest! {
    #[test]
    fn no_field_makes_it_stumble(id in "[ -~]*", time in "[ -~]*", signature in "[ -~]*") {
        let fields = [(ID, id), (TIMESTAMP, time), (SIGNATURE, signature)];
        let headers: HeaderMap = fields
            .into_iter()
            .map(|(name, text)| (name, HeaderValue::from_str(&text).unwrap()))
            .collect();
        prop_assert!(verify(&headers, BODY, &[secret(1)], at(0)).is_err());
    }

    #[test]
    fn whatever_is_signed_is_believed(id in "[!-~&&[^.]]{1,40}", body: Vec<u8>, seconds in 0..4_000_000_000_i64) {
        let fields = headers(&id, at(seconds), &body, &[secret(1)]).unwrap();
        let headers: HeaderMap = fields.into_iter().collect();
        prop_assert_eq!(verify(&headers, &body, &[secret(1)], at(seconds)), Ok(()));
    }
}
