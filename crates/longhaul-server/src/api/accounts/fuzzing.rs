//! Fuzz properties of list queries.

use crate::api::http::fuzzing::pairs;
use crate::api::http::paging::{LIMIT_MAX, PageQuery};
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

/// A limit is in range and written in digits; each filter is returned once.
fn page(bytes: &[u8]) {
    let Some(query) = text(bytes).and_then(pairs) else { return };
    let given = query.0.clone();
    let Ok(mut query) = PageQuery::parse(query, &["target"]) else { return };
    assert!((1..=LIMIT_MAX).contains(&query.limit));
    let value =
        |name: &str| given.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    assert!(
        value("limit").is_none_or(|text| text.bytes().all(|byte| byte.is_ascii_digit())),
        "{given:?}"
    );
    assert_eq!(query.cursor, value("cursor"));
    assert_eq!(query.take("target"), value("target"));
    assert_eq!(query.take("target"), None);
}
