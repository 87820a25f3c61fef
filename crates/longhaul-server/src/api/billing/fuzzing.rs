//! Fuzz properties of billing events.

use longhaul::Timestamp;
use ring::hmac;

use super::{StripeEvent, parse_event, signature};
use crate::api::http::body;
use crate::fuzzing::{Target, line, text};

/// Differs from the secret of the seed inputs.
const SECRET: &str = "whsec_other";
const SECONDS: i64 = 1_492_774_577;

pub(crate) const SIGNATURE: Target = (
    "stripe-signature",
    signed,
    &[
        b"t=1492774577,v1=7656fc2882a7ca0a651666b36bf2f2f22ee204f54f608f227498a2419f2890b2\n{\"id\":\"evt_1\"}",
        b"t=1492774577, v1=00,v0=1,v1=\n{}",
        b"v1=,t=+5,=,,t=\n",
    ],
);

/// Only a signature of the body with the secret is accepted, whatever precedes it.
fn signed(bytes: &[u8]) {
    let (header, body) = line(bytes);
    let Some(header) = text(header) else { return };
    let now = Timestamp::from_millis(SECONDS * 1_000);
    assert!(signature::check(SECRET, header, body, now).is_err(), "{header:?}");
    // Only this many signatures are checked.
    if header.matches("v1=").count() >= 16 {
        return;
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let message = [SECONDS.to_string().as_bytes(), b".", body].concat();
    let good = hmac::sign(&key, &message);
    let digits: Vec<String> = good.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let good = digits.concat();
    let header = format!("{header},t={SECONDS},v1={good}");
    assert_eq!(signature::check(SECRET, &header, body, now), Ok(()), "{header:?}");
    let forged = [body, b" "].concat();
    assert!(signature::check(SECRET, &header, &forged, now).is_err(), "{header:?}");
}

pub(crate) const EVENT: Target = (
    "stripe-event",
    event,
    &[
        br#"{"id":"evt_1","type":"customer.subscription.updated","created":1492774577,"data":{"object":{"customer":"cus_1","status":"past_due"}}}"#,
        br#"{"id":"e","type":"customer.subscription.deleted","created":-9223372036854775808,"data":{"object":{"customer":"c"}}}"#,
        br#"{"id":"e","type":"invoice.paid","created":0,"data":{"object":{}}}"#,
    ],
);

/// A parsed event names its customer.
fn event(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Ok(event) = body::outer_object::<StripeEvent>(text) else { return };
    let (id, customer) = (event.id.clone(), event.data.object.customer.clone());
    if let Some(told) = parse_event(event) {
        assert_eq!((told.id, Some(told.billing_id)), (id, customer));
    }
}
