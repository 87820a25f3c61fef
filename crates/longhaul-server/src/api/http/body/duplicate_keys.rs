//! Duplicate keys in JSON objects, of which parsers may pick either.

use std::borrow::Cow;

/// Longest part of a key in an error message.
const REPORTED_CHARS_MAX: usize = 64;

/// Returns the first duplicate key of any object in a JSON text.
///
/// Scans the text itself, because serde leaves duplicates to each type and ignores them inside of an input,
/// and because parsing values would reject numbers that are stored verbatim. Invalid JSON is left to the
/// parser. Does not recurse.
pub(crate) fn find(text: &str) -> Option<String> {
    // Open arrays (`None`) and objects, with the index of their first key in `keys`.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut keys: Vec<Cow<'_, str>> = Vec::new();
    // The next string is a key.
    let mut key_next = false;
    let mut rest = text;
    while let Some(at) = rest.find(['"', '{', '}', '[', ']', ',']) {
        let (byte, after) = (rest.as_bytes().get(at)?, rest.get(at + 1..)?);
        rest = after;
        match byte {
            b'"' => {
                let end = string_end(after)?;
                if std::mem::take(&mut key_next) {
                    keys.push(decoded(after.get(..end)?));
                }
                rest = after.get(end + 1..)?;
            }
            b'{' => {
                open.push(Some(keys.len()));
                key_next = true;
            }
            b'[' => {
                open.push(None);
                key_next = false;
            }
            b',' => key_next = open.last()?.is_some(),
            _ => {
                if let Some(begin) = open.pop()? {
                    if let Some(key) = first_duplicate(keys.get_mut(begin..)?) {
                        return Some(key.chars().take(REPORTED_CHARS_MAX).collect());
                    }
                    keys.truncate(begin);
                }
                key_next = false;
            }
        }
    }
    None
}

/// Returns the end of the string whose content starts at `text`.
fn string_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// Decodes escapes, for example `"\u0061"` to `"a"`. A lone surrogate is kept as written.
fn decoded(raw: &str) -> Cow<'_, str> {
    let unescaped = raw.contains('\\').then(|| serde_json::from_str(&format!("\"{raw}\"")).ok());
    unescaped.flatten().map_or(Cow::Borrowed(raw), Cow::Owned)
}

fn first_duplicate<'a>(keys: &'a mut [Cow<'_, str>]) -> Option<&'a str> {
    keys.sort_unstable();
    keys.windows(2).find_map(|pair| match pair {
        [one, other] if one == other => Some(one.as_ref()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_found_at_any_depth() {
        for (text, key) in [
            (r#"{"a":1,"a":2}"#, "a"),
            (r#"{"labels":{"x":"1","y":{},"x":"2"}}"#, "x"),
            (r#"[[{"b":[{"c":1},{"c":1}],"b":1}]]"#, "b"),
            (r#"{"a":1,"\u0061":2}"#, "a"),
            (r#"{"\"":1, "k" : {"k":1} , "\"":2}"#, "\""),
            (r#"{"":1,"":2}"#, ""),
        ] {
            assert_eq!(find(text).as_deref(), Some(key), "{text}");
        }
    }

    #[test]
    fn texts_without_one_pass_and_so_does_what_is_not_json() {
        let deep = "[".repeat(1_000_000);
        for text in [
            r#"{"a":{"a":{"a":"a"}},"b":["a","a",{"a":1e400},{"a":-0.0}]}"#,
            r#"{"a":"{\"b\":1,\"b\":2}","c":"\\"}"#,
            r#"{"a":"b","b":"a"}"#,
            r#"["a","a"]"#,
            "1e400",
            "",
            r#"{"a":1,"a"#,
            "}}]]",
            ",\"",
            &deep,
        ] {
            assert_eq!(find(text), None, "{text:.60}");
        }
    }
}
