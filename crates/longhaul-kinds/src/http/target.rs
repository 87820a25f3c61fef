//! Target URL of the operator, and the paths that callers may append. Pure.

use std::fmt;

use url::Url;

/// Levels of percent-encoding to check.
const ESCAPED_MAX: usize = 4;

/// URL that the operator configured. Not subject to the egress policy.
#[derive(Clone, PartialEq, Eq)]
pub struct TargetUrl {
    url: Url,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetUrlError {
    #[error("not a valid URL: {0}")]
    Malformed(String),
    #[error("URL must start with http:// or https://")]
    Scheme,
    #[error("URL contains a user name or password; use `headers` instead")]
    Credentials,
    #[error("URL contains a fragment (#)")]
    Fragment,
}

/// Path that could leave the target's path, or that servers interpret differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the path contains dot segments, empty segments, encoded slashes, backslashes or unescaped \
     characters, so that it could leave the target"
)]
pub struct TargetPathError;

impl TargetUrl {
    pub fn parse(text: &str) -> Result<Self, TargetUrlError> {
        let url = Url::parse(text).map_err(|error| TargetUrlError::Malformed(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(TargetUrlError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetUrlError::Credentials);
        }
        if url.fragment().is_some() {
            return Err(TargetUrlError::Fragment);
        }
        Ok(Self { url })
    }

    /// Appends `path` to its path and `query` to its query.
    pub fn at(&self, path: &str, query: Option<&str>) -> Result<Url, TargetPathError> {
        check_path(path)?;
        let mut url = self.url.clone();
        if !path.is_empty() {
            let joined = format!("{}{path}", self.url.path().trim_end_matches('/'));
            url.set_path(&joined);
            // The parser must not have removed a segment after the check.
            if url.path().len() < joined.len() {
                return Err(TargetPathError);
            }
        }
        let added = query.filter(|query| !query.is_empty());
        let query = match (self.url.query(), added) {
            (Some(own), Some(added)) => Some(format!("{own}&{added}")),
            (own, added) => own.or(added).map(str::to_owned),
        };
        url.set_query(query.as_deref());
        Ok(url)
    }

    /// Returns scheme, host and port, without possible secrets.
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Returns host and port, for a connection test.
    pub fn address(&self) -> Option<(&str, u16)> {
        Some((self.url.host_str()?, self.url.port_or_known_default()?))
    }
}

/// Omits path and query, which may be secret.
impl fmt::Debug for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TargetUrl").field(&self.origin()).finish()
    }
}

/// Checks that a path stays below the target, however often a server decodes it. A path is empty or starts
/// with a slash.
pub fn check_path(path: &str) -> Result<(), TargetPathError> {
    let Some(rest) = path.strip_prefix('/') else {
        return if path.is_empty() { Ok(()) } else { Err(TargetPathError) };
    };
    let allowed = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>?\\^`{|}".contains(&byte);
    if !path.bytes().all(allowed) {
        return Err(TargetPathError);
    }
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        if segment.is_empty() && !is_last {
            return Err(TargetPathError);
        }
        check_segment(segment.as_bytes())?;
    }
    Ok(())
}

fn check_segment(segment: &[u8]) -> Result<(), TargetPathError> {
    let mut bytes = segment.to_vec();
    for _ in 0..ESCAPED_MAX {
        // Some servers strip parameters behind a ';'.
        let name = bytes.split(|byte| *byte == b';').next().unwrap_or_default();
        let is_dots = matches!(name, b"." | b"..");
        if is_dots
            || bytes.iter().any(|byte| matches!(byte, b'/' | b'\\') || byte.is_ascii_control())
        {
            return Err(TargetPathError);
        }
        if !bytes.contains(&b'%') {
            return Ok(());
        }
        let Some(once) = unescaped(&bytes) else {
            // A lone '%' is no escape in what was sent; further inside it is only a sign.
            return if bytes == segment { Err(TargetPathError) } else { Ok(()) };
        };
        bytes = once;
    }
    Err(TargetPathError)
}

/// Decodes once. Returns `None` if a '%' is not followed by two digits.
fn unescaped(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut pieces = bytes.split(|byte| *byte == b'%');
    let mut plain = pieces.next()?.to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_first_chunk::<2>()?;
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        plain.push(u8::try_from(high? * 16 + low?).ok()?);
        plain.extend(rest);
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(target: &str, path: &str, query: Option<&str>) -> String {
        TargetUrl::parse(target).unwrap().at(path, query).unwrap().to_string()
    }

    #[test]
    fn path_and_query_are_appended() {
        assert_eq!(at("http://t/report", "", None), "http://t/report");
        assert_eq!(at("http://t/report", "/", None), "http://t/report/");
        assert_eq!(at("http://t/report/", "/7/pdf", Some("a=1&b")), "http://t/report/7/pdf?a=1&b");
        assert_eq!(at("http://t", "/7", Some("")), "http://t/7");
        assert_eq!(
            at("http://t/r?k=1", "/%20a%C3%A4", Some("q=%2F")),
            "http://t/r/%20a%C3%A4?k=1&q=%2F"
        );
        assert_eq!(at("http://t/r", "/a;v=1/b..c/...", None), "http://t/r/a;v=1/b..c/...");
    }

    #[test]
    fn path_that_could_lead_elsewhere_is_refused() {
        for bad in [
            "x",
            "//",
            "//evil",
            "/a//b",
            "/..",
            "/.",
            "/a/../b",
            "/%2e%2e",
            "/%2E./x",
            "/.%2e",
            "/a%2fb",
            "/a%5cb",
            "/a\\b",
            "/..;/x",
            "/%2e%2e;x=1",
            "/%252e%252e",
            "/%25%32%65.",
            "/a%00",
            "/a%0d%0aHost",
            "/a%",
            "/a%2",
            "/a%zz",
            "/a?b",
            "/a#b",
            "/ä",
            "/a b",
            "/%2525252525252e",
        ] {
            assert_eq!(check_path(bad), Err(TargetPathError), "{bad}");
        }
    }

    #[test]
    fn target_is_a_url_without_secrets_in_it() {
        for (text, error) in [
            ("ftp://t/", TargetUrlError::Scheme),
            ("http://a:b@t/", TargetUrlError::Credentials),
            ("http://t/#x", TargetUrlError::Fragment),
        ] {
            assert_eq!(TargetUrl::parse(text), Err(error), "{text}");
        }
        assert!(matches!(TargetUrl::parse("t/x"), Err(TargetUrlError::Malformed(_))));
        let target = TargetUrl::parse("https://t.example/hook/s3cret?k=s3cret").unwrap();
        assert_eq!(format!("{target:?}"), r#"TargetUrl("https://t.example")"#);
    }

    proptest! {
        #[test]
        fn whatever_is_not_refused_stays_below_the_target(path in "[/.%2eEfF5cC;a-]{0,24}") {
            let path = format!("/{path}");
            if let Ok(url) = TargetUrl::parse("http://t/own").unwrap().at(&path, None) {
                prop_assert_eq!(url.path(), format!("/own{path}"));
                prop_assert_eq!(url.host_str(), Some("t"));
            }
        }
    }
}
