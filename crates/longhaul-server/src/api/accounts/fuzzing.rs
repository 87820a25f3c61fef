//! What holds of the pages of lists.

use crate::api::http::fuzzing::pairs;
use crate::api::http::paging::{Asked, LIMIT_MAX};
use crate::fuzzing::{Target, text};

pub(crate) const PAGE: Target = (
    "page",
    page,
    &[
        b"limit=10&cursor=a&target=x",
        b"limit=0",
        b"limit=%2B5",
        b"cursor=%00",
        b"limit=1&limit=1",
        b"limits=1",
    ],
);

/// A page has a length within its limits, written in digits, and what else was asked is given out once.
fn page(bytes: &[u8]) {
    let Some(query) = text(bytes).and_then(pairs) else { return };
    let given = query.0.clone();
    let Ok(mut asked) = Asked::of(query, &["target"]) else { return };
    assert!((1..=LIMIT_MAX).contains(&asked.limit));
    let value =
        |name: &str| given.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    assert!(
        value("limit").is_none_or(|text| text.bytes().all(|byte| byte.is_ascii_digit())),
        "{given:?}"
    );
    assert_eq!(asked.cursor, value("cursor"));
    assert_eq!(asked.take("target"), value("target"));
    assert_eq!(asked.take("target"), None);
}
