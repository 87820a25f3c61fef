//! Nesting depth of JSON texts.

/// Returns whether arrays and objects nest more than `levels_max` levels deep.
///
/// A single pass before parsing, because parsers recurse, here and in every program that receives the text.
/// Invalid JSON is left to the parser.
pub(crate) fn exceeds(text: &str, levels_max: usize) -> bool {
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
    fn nesting_counts_open_brackets_outside_of_strings() {
        for (text, levels) in [
            ("1", 0),
            (r#""[[[[""#, 0),
            (r#"{"a\"[[":"\\","b":"]"}"#, 1),
            (r#"[[],[],{"a":{}}]"#, 3),
            ("]]][", 1),
            ("[[[", 3),
        ] {
            assert!(!exceeds(text, levels), "{text}");
            assert!(levels == 0 || exceeds(text, levels - 1), "{text}");
        }
        assert!(exceeds(&"[".repeat(1_000_000), 64));
    }
}
