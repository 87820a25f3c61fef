//! JSON as a collapsible tree that keeps numbers and the order of keys as they were written.

use std::fmt;

use longhaul_client::wire::RawJson;
use maud::{Markup, html};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::components;

/// Size up to which a text becomes a tree. Larger texts are truncated.
const TREE_BYTES_MAX: usize = 256 * 1024;
const TRUNCATED_CHARS: usize = 16 * 1024;
const VALUES_MAX: usize = 2_000;
const STRING_CHARS_MAX: usize = 4_000;
const OPEN_LEVELS: usize = 2;
const LEVELS_MAX: usize = 64;

/// Renders a JSON text with buttons that copy and download it.
pub(super) fn show(name: &str, text: &RawJson, url: &str) -> Markup {
    let text = text.as_str();
    let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
    html! {
        div.viewer {
            p.tools {
                span.soft { (components::bytes(size)) }
                button type="button" data-copy=(url) { "Copy" }
                a href=(url) download=(format!("{name}.json")) { "Download" }
            }
            (tree(text))
        }
    }
}

/// Renders the tree without buttons.
pub(super) fn tree(text: &str) -> Markup {
    let mut left = VALUES_MAX;
    match serde_json::from_str::<&RawValue>(text) {
        Ok(value) if text.len() <= TREE_BYTES_MAX => {
            html! { div.json { (render(value, 0, &mut left)) } }
        }
        Ok(_) | Err(_) => html! {
            pre.json { (components::truncated(text, TRUNCATED_CHARS)) }
            p.soft { "Truncated. Download it to see all of it." }
        },
    }
}

fn render(value: &RawValue, level: usize, left: &mut usize) -> Markup {
    *left = left.saturating_sub(1);
    let text = value.get();
    if level > LEVELS_MAX {
        return html! { span.json-bare { (components::truncated(text, STRING_CHARS_MAX)) } };
    }
    match text.as_bytes().first() {
        Some(b'{') => match serde_json::from_str::<Fields<'_>>(text) {
            Ok(Fields(fields)) if !fields.is_empty() => object(&fields, level, left),
            Ok(_) => html! { span.json-bare { "{}" } },
            Err(_) => html! { (text) },
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(items) if !items.is_empty() => list(&items, level, left),
            Ok(_) => html! { span.json-bare { "[]" } },
            Err(_) => html! { (text) },
        },
        Some(b'"') => {
            let string = serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned());
            html! { span.json-string { (components::truncated(&string, STRING_CHARS_MAX)) } }
        }
        Some(_) | None => html! { span.json-bare { (text) } },
    }
}

fn object(fields: &[(String, &RawValue)], level: usize, left: &mut usize) -> Markup {
    html! {
        details open[level < OPEN_LEVELS] {
            summary { (counted(fields.len(), "key")) }
            dl {
                @for (name, value) in fields {
                    @if *left > 0 {
                        dt { (name) }
                        dd { (render(value, level + 1, left)) }
                    }
                }
            }
            @if *left == 0 { (more()) }
        }
    }
}

fn list(items: &[&RawValue], level: usize, left: &mut usize) -> Markup {
    html! {
        details open[level < OPEN_LEVELS] {
            summary { (counted(items.len(), "item")) }
            ol start="0" {
                @for value in items {
                    @if *left > 0 { li { (render(value, level + 1, left)) } }
                }
            }
            @if *left == 0 { (more()) }
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn more() -> Markup {
    html! { p.soft { "Truncated. Download it to see all of it." } }
}

/// Fields of an object in their original order, each with its raw text.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldVisitor;
        impl<'de> Visitor<'de> for FieldVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(FieldVisitor).map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_tree_keeps_numbers_and_key_order_and_escapes_markup() {
        let html = tree(r#"{"z":123456789012345678901234567890,"a":"<b>\"é"}"#).into_string();
        let (number, text) =
            (html.find("123456789012345678901234567890"), html.find("&lt;b&gt;&quot;é"));
        assert!(number.unwrap() < text.unwrap(), "{html}");
        assert!(!html.contains("<b>"));
    }

    #[test]
    fn json_tree_truncates_large_texts() {
        let many = format!("[{}1]", "1,".repeat(VALUES_MAX * 2));
        assert!(tree(&many).into_string().contains("Truncated"));
        let long = format!("\"{}\"", "a".repeat(TREE_BYTES_MAX));
        assert!(tree(&long).into_string().len() < TRUNCATED_CHARS + 200);
    }

    #[test]
    fn json_tree_renders_deep_texts() {
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        assert!(!tree(&deep).into_string().is_empty());
    }
}
