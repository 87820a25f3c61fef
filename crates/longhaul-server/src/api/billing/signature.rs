//! Stripe's signatures: `t=<seconds>,v1=<hex>`, with several `v1` while a secret is rotated.

use std::fmt;

use longhaul::Timestamp;

use crate::hmac_signature;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureError {
    Malformed,
    Stale,
    Forged,
}

impl fmt::Display for SignatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it must have the form t=…,v1=…",
            Self::Stale => "it is older than five minutes",
            Self::Forged => "it does not match this server's secret",
        })
    }
}

/// Checks that a signature matches the body and the secret, and is at most five minutes old.
pub(super) fn check(
    secret: &str,
    header: &str,
    body: &[u8],
    now: Timestamp,
) -> Result<(), SignatureError> {
    let mut time = None;
    let mut signatures = Vec::new();
    for part in header.split(',') {
        match part.trim().split_once('=') {
            Some(("t", text)) => time = text.parse::<i64>().ok().map(|seconds| (text, seconds)),
            Some(("v1", hex)) if signatures.len() < hmac_signature::SIGNATURES_MAX => {
                signatures.extend(from_hex(hex));
            }
            Some(_) | None => {}
        }
    }
    let Some((text, seconds)) = time else { return Err(SignatureError::Malformed) };
    if signatures.is_empty() {
        return Err(SignatureError::Malformed);
    }
    let tag = hmac_signature::sign(secret.as_bytes(), &[text.as_bytes(), body]);
    if !hmac_signature::is_among(&tag, &signatures) {
        return Err(SignatureError::Forged);
    }
    if hmac_signature::is_fresh(seconds, now) { Ok(()) } else { Err(SignatureError::Stale) }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    Some(
        digits.chunks_exact(2).filter_map(|pair| Some(pair.first()? << 4 | pair.get(1)?)).collect(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // The expected signature comes from openssl:
    // printf '1492774577.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test
    const BODY: &[u8] = br#"{"id":"evt_1"}"#;
    const SECRET: &str = "whsec_test";
    const TIME: i64 = 1_492_774_577;

    const SIGNATURE: &str = "7656fc2882a7ca0a651666b36bf2f2f22ee204f54f608f227498a2419f2890b2";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn checked(header: &str) -> Result<(), SignatureError> {
        check(SECRET, header, BODY, at(TIME))
    }

    #[test]
    fn one_good_signature_is_enough() {
        let good = SIGNATURE;
        let bad = "0".repeat(64);
        assert_eq!(checked(&format!("t={TIME},v1={good}")), Ok(()));
        assert_eq!(checked(&format!("t={TIME},v1={bad},v1={good},v0={bad}")), Ok(()));
        assert_eq!(checked(&format!("t={TIME}, v1={}", good.to_uppercase())), Ok(()));
        assert_eq!(checked(&format!("t={TIME},v1={bad}")), Err(SignatureError::Forged));
        assert_eq!(checked(&format!("t={},v1={good}", TIME + 1)), Err(SignatureError::Forged));
        assert_eq!(
            check("other", &format!("t={TIME},v1={good}"), BODY, at(TIME)),
            Err(SignatureError::Forged)
        );
        for malformed in ["", "t=", "v1=", &format!("t={TIME}"), &format!("v1={good}"), "t=x,v1=y"]
        {
            assert_eq!(checked(malformed), Err(SignatureError::Malformed), "{malformed}");
        }
    }

    #[test]
    fn signature_is_good_for_five_minutes_either_way() {
        let header = format!("t={TIME},v1={SIGNATURE}");
        for (off, outcome) in [
            (300, Ok(())),
            (-300, Ok(())),
            (301, Err(SignatureError::Stale)),
            (-301, Err(SignatureError::Stale)),
        ] {
            assert_eq!(check(SECRET, &header, BODY, at(TIME + off)), outcome, "{off}");
        }
    }

    proptest! {
        #[test]
        fn any_stripe_signature_header_is_handled(header in "\\PC*", body in ".*") {
            prop_assert!(check(SECRET, &header, body.as_bytes(), at(TIME)).is_err());
        }
    }
}
