//! HMAC-SHA256 signatures over a time and a body, as used by webhooks and by Stripe.

use longhaul::Timestamp;
use ring::hmac;
use subtle::ConstantTimeEq as _;

/// Largest age or lead of a signature, in milliseconds. Limits replays.
const TOLERANCE_MS: i64 = 5 * 60 * 1_000;
/// Signatures that are checked. Several are sent while a secret is rotated.
pub(crate) const SIGNATURES_MAX: usize = 16;

/// Signs the parts, joined with dots.
pub(crate) fn sign(secret: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            context.update(b".");
        }
        context.update(part);
    }
    context.sign()
}

/// Returns whether one of the signatures matches, in constant time.
pub(crate) fn is_among(tag: &hmac::Tag, signatures: &[Vec<u8>]) -> bool {
    signatures.iter().any(|signature| tag.as_ref().ct_eq(signature).into())
}

/// Returns whether a signature of this time (in seconds) is within the tolerance.
pub(crate) fn is_fresh(signed_at_s: i64, now: Timestamp) -> bool {
    let difference = now.as_millis().saturating_sub(signed_at_s.saturating_mul(1_000));
    difference.saturating_abs() <= TOLERANCE_MS
}
