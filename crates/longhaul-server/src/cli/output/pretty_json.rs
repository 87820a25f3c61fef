//! Indented and colored JSON with unchanged keys and numbers.

use longhaul_client::wire::RawJson;

use crate::cli::output::color::{Paint, Style, printable};

/// Formats a JSON text without parsing its values, because that would sort keys and round large
/// numbers.
pub(crate) fn pretty(json: &RawJson, style: Style) -> String {
    let mut writer = PrettyWriter { out: String::new(), depth: 0, style };
    let mut rest = json.as_str().trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = rest.split_at(token_len(rest, first));
        let after = after.trim_start();
        rest = writer.write(token, after);
    }
    writer.out
}

/// Returns the length of the token that begins with `first`. The text must be valid JSON.
fn token_len(text: &str, first: char) -> usize {
    match first {
        '"' => {
            let mut escaped = false;
            let end = text.char_indices().skip(1).find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            end.map_or(text.len(), |(at, _)| at + 1)
        }
        '{' | '}' | '[' | ']' | ',' | ':' => 1,
        _ => {
            text.find(|c: char| c.is_ascii_whitespace() || ",]}".contains(c)).unwrap_or(text.len())
        }
    }
}

struct PrettyWriter {
    out: String,
    depth: usize,
    style: Style,
}

impl PrettyWriter {
    /// Writes a token and returns the rest of the text.
    fn write<'a>(&mut self, token: &str, after: &'a str) -> &'a str {
        match token {
            "{" | "[" => return self.open(token, after),
            "}" | "]" => {
                self.depth = self.depth.saturating_sub(1);
                self.new_line();
                self.out.push_str(token);
            }
            "," => {
                self.out.push_str(token);
                self.new_line();
            }
            ":" => self.out.push_str(": "),
            _ if token.starts_with('"') => {
                let paint = if after.starts_with(':') { Paint::Cyan } else { Paint::Green };
                // JSON escapes the control characters of ASCII itself, but terminals obey more.
                let text = self.style.paint(paint, &printable(token));
                self.out.push_str(&text);
            }
            _ => self.out.push_str(&self.style.paint(Paint::Yellow, token)),
        }
        after
    }

    fn open<'a>(&mut self, token: &str, after: &'a str) -> &'a str {
        self.out.push_str(token);
        let close = if token == "{" { "}" } else { "]" };
        if let Some(rest) = after.strip_prefix(close) {
            self.out.push_str(close);
            return rest.trim_start();
        }
        self.depth += 1;
        self.new_line();
        after
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        self.out.push_str(&"  ".repeat(self.depth));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(text: &str) -> String {
        pretty(&RawJson::from_text(text).unwrap(), Style::PLAIN)
    }

    #[test]
    fn keys_and_numbers_stay_as_they_came() {
        insta::assert_snapshot!(
            plain(r#"{"z":12345678901234567890123,"a":[1,{"b\"":"x,y:{"}],"e":{},"f":[ ]}"#),
            @r#"
        {
          "z": 12345678901234567890123,
          "a": [
            1,
            {
              "b\"": "x,y:{"
            }
          ],
          "e": {},
          "f": []
        }
        "#
        );
    }

    #[test]
    fn a_bare_value_is_itself() {
        assert_eq!(plain("null"), "null");
        assert_eq!(plain(r#" "a\\" "#), r#""a\\""#);
    }

    #[test]
    fn keys_strings_and_other_values_differ_in_colour() {
        let json = RawJson::from_text(r#"{"a":"b","c":1}"#).unwrap();
        insta::assert_snapshot!(
            pretty(&json, Style { color: true }).escape_debug(),
            @r#"{\n  \u{1b}[36m\"a\"\u{1b}[0m: \u{1b}[32m\"b\"\u{1b}[0m,\n  \u{1b}[36m\"c\"\u{1b}[0m: \u{1b}[33m1\u{1b}[0m\n}"#
        );
    }

    #[test]
    fn a_string_cannot_drive_the_terminal() {
        assert_eq!(plain("\"\u{9b}2J\""), r#""\u009b2J""#);
    }

    proptest! {
        #[test]
        fn layout_does_not_change_the_value(keys in prop::collection::vec("\\PC{0,6}", 0..4), n: i64) {
            let mut value = serde_json::json!(n);
            for key in keys {
                value = serde_json::json!({ key.clone(): value, "list": [key, null, [], {}] });
            }
            let laid_out = plain(&value.to_string());
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&laid_out).unwrap(), value);
        }
    }
}
