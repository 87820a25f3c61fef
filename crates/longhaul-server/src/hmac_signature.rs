//! What signatures by a shared secret have in common, ours on webhooks and the payment provider's on its
//! events: HMAC-SHA256 over a time and a body.

use longhaul::Timestamp;
use ring::hmac;
use subtle::ConstantTimeEq as _;

/// How old or how far ahead a signature may be, in milliseconds: one that was overheard is of no use later.
const TOLERANCE_MS: i64 = 5 * 60 * 1_000;
/// Signatures that are looked at: several are there while a secret is rotated, and never many.
pub(crate) const SIGNATURES_MAX: usize = 16;

/// Signs these parts, with a dot between them.
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

/// Whether one of the signatures is this, in a time that tells nothing of how near it is.
pub(crate) fn is_among(tag: &hmac::Tag, signatures: &[Vec<u8>]) -> bool {
    signatures.iter().any(|signature| tag.as_ref().ct_eq(signature).into())
}

/// Whether a signature of this time, in seconds, still counts.
pub(crate) fn is_fresh(signed_at_s: i64, now: Timestamp) -> bool {
    let apart = now.as_millis().saturating_sub(signed_at_s.saturating_mul(1_000));
    apart.saturating_abs() <= TOLERANCE_MS
}
