//! The `Idempotency-Key` header.

use axum::http::{HeaderMap, HeaderName};

use crate::problem::{Code, Problem, Result};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Parses the request's key: bare, or as a quoted structured-field string (RFC 9651).
pub(crate) fn key(headers: &HeaderMap, required: bool) -> Result<Option<String>> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = given.next() else {
        return checked(None, required);
    };
    if given.next().is_some() {
        return Err(invalid("the header Idempotency-Key must not be repeated"));
    }
    let text = value.to_str().map_err(|_| invalid(RULE))?.trim();
    let key = match text.strip_prefix('"') {
        Some(rest) => unquoted(rest).ok_or_else(|| invalid(QUOTES))?,
        None => text.to_owned(),
    };
    checked(Some(key), required)
}

/// Validates a key from a header or a batch.
pub(crate) fn checked(key: Option<String>, required: bool) -> Result<Option<String>> {
    let Some(key) = key else {
        if required {
            let detail = "this server requires an idempotency key for submissions";
            return Err(Problem::new(Code::IdempotencyKeyRequired, detail));
        }
        return Ok(None);
    };
    let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
    if !visible || !(1..=CHARS_MAX).contains(&key.len()) {
        return Err(invalid(RULE));
    }
    Ok(Some(key))
}

const CHARS_MAX: usize = 255;
const RULE: &str = "an idempotency key must have 1 to 255 visible ASCII characters";
const QUOTES: &str = "an idempotency key that begins with a quote must be one quoted string";

fn invalid(detail: &'static str) -> Problem {
    Problem::new(Code::IdempotencyKeyInvalid, detail)
}

/// Returns the text between the quotes; `rest` begins after the first.
fn unquoted(rest: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(text),
            '\\' => text.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            plain => text.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&[u8]]) -> Result<Option<String>, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = axum::http::HeaderValue::from_bytes(value).unwrap();
            headers.append(IDEMPOTENCY_KEY, value);
        }
        key(&headers, false).map_err(|problem| problem.code())
    }

    #[test]
    fn bare_and_quoted_idempotency_keys_are_equal() {
        for spelling in [&b"order-42"[..], b"\"order-42\"", b"  order-42 "] {
            assert_eq!(read(&[spelling]), Ok(Some("order-42".to_owned())));
        }
        assert_eq!(read(&[br#""a\"b\\c""#]), Ok(Some(r#"a"b\c"#.to_owned())));
        assert_eq!(read(&[&[b'k'; 255]]), Ok(Some("k".repeat(255))));
        assert_eq!(read(&[]), Ok(None));
    }

    #[test]
    fn malformed_idempotency_keys_are_rejected() {
        let long = [b'k'; 256];
        let bad: [&[&[u8]]; 9] = [
            &[b""],
            &[b"\"\""],
            &[b"two words"],
            &[b"\"open"],
            &[b"\"a\";b=1"],
            &[br#""a\n""#],
            &["schlüssel".as_bytes()],
            &[&long],
            &[b"one", b"one"],
        ];
        for values in bad {
            assert_eq!(read(values), Err(Code::IdempotencyKeyInvalid), "{values:?}");
        }
    }

    #[test]
    fn missing_required_idempotency_key_is_rejected() {
        let problem = key(&HeaderMap::new(), true).unwrap_err();
        assert_eq!(problem.code(), Code::IdempotencyKeyRequired);
    }
}
