//! Keys that stand twice in one object: whoever reads after us may take the other one.

use std::borrow::Cow;

/// What is shown of a key.
const SHOWN_CHARS_MAX: usize = 64;

/// A key that stands twice in one object of a JSON text, if there is one.
///
/// A scan of its own: serde lets each type decide and says nothing about keys inside of an input,
/// and reading values would judge numbers that are kept as they are. What is not JSON is left for
/// the reader that comes after to refuse. Nesting costs no stack.
pub(crate) fn doubled_key(text: &str) -> Option<String> {
    // The open arrays (`None`) and objects, each with where its keys begin in `keys`.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut keys: Vec<Cow<'_, str>> = Vec::new();
    // Whether a string that comes now is a key.
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
                    if let Some(doubled) = doubled(keys.get_mut(begin..)?) {
                        return Some(doubled.chars().take(SHOWN_CHARS_MAX).collect());
                    }
                    keys.truncate(begin);
                }
                key_next = false;
            }
        }
    }
    None
}

/// Where the string ends that begins with `text`.
fn string_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// The key that is meant: `"\u0061"` is `"a"`. Half a surrogate stands for itself.
fn decoded(raw: &str) -> Cow<'_, str> {
    let meant = raw.contains('\\').then(|| serde_json::from_str(&format!("\"{raw}\"")).ok());
    meant.flatten().map_or(Cow::Borrowed(raw), Cow::Owned)
}

fn doubled<'a>(keys: &'a mut [Cow<'_, str>]) -> Option<&'a str> {
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
    fn doubled_keys_are_found_wherever_they_are() {
        for (text, key) in [
            (r#"{"a":1,"a":2}"#, "a"),
            (r#"{"labels":{"x":"1","y":{},"x":"2"}}"#, "x"),
            (r#"[[{"b":[{"c":1},{"c":1}],"b":1}]]"#, "b"),
            (r#"{"a":1,"\u0061":2}"#, "a"),
            (r#"{"\"":1, "k" : {"k":1} , "\"":2}"#, "\""),
            (r#"{"":1,"":2}"#, ""),
        ] {
            assert_eq!(doubled_key(text).as_deref(), Some(key), "{text}");
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
            assert_eq!(doubled_key(text), None, "{text:.60}");
        }
    }
}
