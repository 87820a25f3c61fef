//! The little HTML that the server writes: escaped, styled from one file, and free of scripts.

use std::fmt;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// A text that cannot end an attribute or begin an element.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
            let (plain, special) = rest.split_at(at);
            f.write_str(plain)?;
            let mut chars = special.chars();
            f.write_str(match chars.next() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                Some(_) | None => "&#39;",
            })?;
            rest = chars.as_str();
        }
        f.write_str(rest)
    }
}

/// A whole page; `head` and `body` are HTML already.
pub(super) fn page(title: &str, head: &str, body: &str) -> Response {
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">{head}\n\
         <link rel=\"stylesheet\" href=\"/style.css\"></head>\n<body>\n{body}</body>\n</html>\n",
        Escaped(title)
    );
    // What else a page needs is added to every one of them: see `secure`.
    ([(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))], text).into_response()
}

/// The style sheet of all pages.
pub(super) async fn style() -> impl IntoResponse {
    let css = HeaderValue::from_static("text/css; charset=utf-8");
    ([(CONTENT_TYPE, css)], include_str!("style.css"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_text_or_attributes() {
        assert_eq!(Escaped("a<script>'\"&é").to_string(), "a&lt;script&gt;&#39;&quot;&amp;é");
    }
}
