//! How deep a JSON text nests.

/// Whether arrays and objects are open inside of each other more than `levels_max` deep.
///
/// One pass over the bytes, before anything is read: readers go down into a text by calling
/// themselves, here and in every program that gets it from us. What is not JSON is left for the
/// reader that comes after to refuse.
pub(crate) fn nests_deeper(text: &str, levels_max: usize) -> bool {
    let (mut levels, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        if in_string {
            in_string = byte != b'"' || escaped;
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' if levels == levels_max => return true,
            b'{' | b'[' => levels += 1,
            b'}' | b']' => levels = levels.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_open_at_once_counts() {
        for (text, levels) in [
            ("1", 0),
            (r#""[[[[""#, 0),
            (r#"{"a\"[[":"\\","b":"]"}"#, 1),
            (r#"[[],[],{"a":{}}]"#, 3),
            ("]]][", 1),
            ("[[[", 3),
        ] {
            assert!(!nests_deeper(text, levels), "{text}");
            assert!(levels == 0 || nests_deeper(text, levels - 1), "{text}");
        }
        assert!(nests_deeper(&"[".repeat(1_000_000), 64));
    }
}
