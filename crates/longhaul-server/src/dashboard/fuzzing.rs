//! Fuzz targets of the dashboard.

use url::Url;

use super::json_tree::tree;
use super::sign_in::is_own_page;
use crate::fuzzing::{Target, text};

pub(crate) const JSON_TREE: Target = (
    "json-tree",
    json_tree,
    &[
        br#"{"a":[1,2.50,null,true,"<b>x</b>"],"<i>":{}}"#,
        br#""</pre><script>alert(1)</script>""#,
        b"[[[[[[[[]]]]]]]]",
        b"{\"a\":",
        b"12345678901234567890e999",
    ],
);

/// The tree of any text contains only elements that `json_tree` writes.
fn json_tree(bytes: &[u8]) {
    const ELEMENTS: [&str; 11] =
        ["div", "pre", "p", "details", "summary", "dl", "dt", "dd", "ol", "li", "span"];
    let Some(text) = text(bytes) else { return };
    let html = tree(text).into_string();
    for (at, _) in html.match_indices('<') {
        let rest = html.get(at + 1..).unwrap_or_default();
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        let end = rest.find([' ', '>']).unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default();
        assert!(ELEMENTS.contains(&name), "<{name} in {html}");
    }
}

pub(crate) const NEXT: Target = (
    "next-page",
    next,
    &[b"/ui/jobs?status=failed", b"//evil.example/ui", b"/\\evil.example", b"/ui/../..//x", b"/?a"],
);

/// A sign-in never redirects to another site.
fn next(bytes: &[u8]) {
    let Some(address) = text(bytes).filter(|address| is_own_page(address)) else { return };
    let Ok(here) = Url::parse("https://jobs.example:8443/ui/sign-in") else { return };
    let there = here.join(address);
    assert!(there.is_ok_and(|there| there.origin() == here.origin()), "{address:?}");
}
