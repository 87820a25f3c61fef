//! Canonical JSON: sorted keys, no white space, numbers by their exact value.

use std::borrow::Cow;
use std::fmt::Write;

use super::JsonError;

const DEPTH_MAX: usize = 128;

/// Returns the canonical form of a valid JSON text. Rejects objects with duplicate keys, because
/// parsers disagree on which of the two counts, and deeply nested values.
pub(super) fn canonical(text: &str) -> Result<String, JsonError> {
    let mut out = String::with_capacity(text.len());
    Reader { text, at: 0 }.value(&mut out, 0)?;
    Ok(out)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, out: &mut String, depth: usize) -> Result<(), JsonError> {
        if depth > DEPTH_MAX {
            return Err(JsonError::refused(format!("nested deeper than {DEPTH_MAX} levels")));
        }
        match self.peek() {
            b'{' => self.object(out, depth)?,
            b'[' => self.array(out, depth)?,
            b'"' => out.push_str(&self.string()?),
            b'-' | b'0'..=b'9' => number(self.scalar(), out),
            _ => out.push_str(self.scalar()),
        }
        Ok(())
    }

    fn object(&mut self, out: &mut String, depth: usize) -> Result<(), JsonError> {
        let mut entries: Vec<(Cow<'a, str>, String)> = Vec::new();
        self.skip(b'{');
        while self.peek() != b'}' {
            let key = self.string()?;
            self.skip(b':');
            let mut value = String::new();
            self.value(&mut value, depth + 1)?;
            entries.push((key, value));
            self.skip(b',');
        }
        self.skip(b'}');
        entries.sort_unstable();
        let twice = entries.windows(2).find_map(|pair| match pair {
            [(one, _), (next, _)] if one == next => Some(one),
            _ => None,
        });
        if let Some(key) = twice {
            return Err(JsonError::refused(format!("the key {key} is there twice")));
        }
        out.push('{');
        for (key, value) in entries {
            // A trailing comma is unambiguous, and nothing parses this text as JSON.
            write!(out, "{key}:{value},").ok();
        }
        out.push('}');
        Ok(())
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Result<(), JsonError> {
        self.skip(b'[');
        out.push('[');
        while self.peek() != b']' {
            self.value(out, depth + 1)?;
            out.push(',');
            self.skip(b',');
        }
        self.skip(b']');
        out.push(']');
        Ok(())
    }

    /// Reads a string and returns it quoted, with canonical escapes.
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.peek();
        let start = self.at;
        self.at += 1;
        let (mut escaped, mut has_escapes) = (false, false);
        while let Some(byte) = self.text.as_bytes().get(self.at) {
            self.at += 1;
            match byte {
                b'"' if !escaped => break,
                b'\\' => (escaped, has_escapes) = (!escaped, true),
                _ => escaped = false,
            }
        }
        let quoted = self.text.get(start..self.at).unwrap_or("");
        if !has_escapes {
            // Valid JSON, so that nothing in it needs an escape.
            return Ok(Cow::Borrowed(quoted));
        }
        let plain: String = serde_json::from_str(quoted)?;
        Ok(Cow::Owned(serde_json::to_string(&plain)?))
    }

    fn scalar(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or("");
        let length = rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or("")
    }

    /// Returns the next byte after white space; 0 at the end.
    fn peek(&mut self) -> u8 {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.as_bytes().get(self.at) {
            self.at += 1;
        }
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn skip(&mut self, byte: u8) {
        if self.peek() == byte {
            self.at += 1;
        }
    }
}

/// Writes a number as its significant digits and a power of ten: `1`, `1.0` and `10e-1` are equal,
/// and no digit is lost.
fn number(text: &str, out: &mut String) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0').trim_end_matches('0');
    // An exponent beyond i64 stays as it is: no other notation can express its value.
    match exponent.trim_start_matches('+').parse::<i64>() {
        _ if significant.is_empty() => out.push('0'),
        Ok(exponent) => {
            let dropped = all.len() - all.trim_end_matches('0').len();
            let scale =
                i64::try_from(dropped).unwrap_or(0) - i64::try_from(fraction.len()).unwrap_or(0);
            write!(out, "{sign}{significant}e{}", exponent.saturating_add(scale)).ok();
        }
        Err(_) => out.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        canonical(text).unwrap()
    }

    #[test]
    fn numbers_are_equal_by_their_exact_value() {
        for same in ["1", "1.0", "10e-1", "0.1e1", "1E0", "1e+0", "100e-2"] {
            assert_eq!(of(same), "1e0", "{same}");
        }
        for zero in ["0", "-0", "0.000", "0e5"] {
            assert_eq!(of(zero), "0");
        }
        let different = [
            "123456789012345678901234567890",
            "123456789012345678901234567891",
            "0.1",
            "0.10000000000000000001",
            "1e400",
            "1e-400",
            "-1",
            "10",
            "9007199254740992",
            "9007199254740993",
        ];
        for (i, one) in different.iter().enumerate() {
            for other in different.iter().skip(i + 1) {
                assert_ne!(of(one), of(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn strings_are_read_whatever_their_escapes() {
        assert_eq!(of(r#"["a\"]b", "\\", "\u00e9"]"#), r#"["a\"]b","\\","é",]"#);
        assert_eq!(of(r#"{"b":{},"a":[ ]}"#), r#"{"a":[],"b":{},}"#);
    }

    #[test]
    fn deep_nesting_is_refused_and_not_overflown() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let error = canonical(&deep).unwrap_err();
        assert!(error.to_string().contains("nested deeper than 128 levels"), "{error}");
    }
}
