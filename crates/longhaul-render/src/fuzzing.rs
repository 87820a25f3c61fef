//! Fuzz targets of this crate.

use d2_little::fonts::FontFamily;
use d2_little::textmeasure::render_markdown;

use crate::d2::markdown;
use crate::sanitize::{Canvas, inspect, sanitize};

/// Name of a target, a property that panics when it does not hold for some bytes, and seed inputs.
pub type FuzzTarget = (&'static str, fn(&[u8]), &'static [&'static [u8]]);

pub const TARGETS: &[FuzzTarget] = &[SANITIZER, MARKDOWN];

const SANITIZER: FuzzTarget = (
    "svg sanitizer",
    sanitized_svg_is_inert,
    &[
        br#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><style>.a{fill:url(#b)} @import 'x';</style><a href="http://x.example/"><text class="a" onclick="f()">t</text></a><image href="data:image/png;base64,AAAA"/></svg>"#,
        br#"<s:svg xmlns:s="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink"><s:script>f()</s:script><s:use x:href="//x.example/a#b"/><s:foreignObject><p xmlns="http://www.w3.org/1999/xhtml"/></s:foreignObject></s:svg>"#,
        br#"<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>"#,
        br#"<svg xmlns="http://www.w3.org/2000/svg" style="fill:url( 'http://x.example/' );stroke:u\72l(x)"><set attributeName="href" to="javascript:f()"/></svg>"#,
    ],
);

const MARKDOWN: FuzzTarget = (
    "d2 markdown",
    drawn_markdown_is_inert,
    &[
        b"# Heading\n\ntext with **bold**, *italic* and `code`\\\nline [a](javascript:f())\n\n- a\n  1. b\n\n> c\n",
        b"| a | b |\n|:-:|--:|\n| c | ~~d~~ |\n\n---\n\n```\ncode\n```\n",
        b"<div onclick=\"f()\"><script>f()</script><table><tr><td><ol start=\"4294967295\"><li/><li/></ol></td></tr></table></div>",
    ],
);

/// Sanitized SVG runs, links and loads nothing, and sanitizing it again changes nothing.
fn sanitized_svg_is_inert(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(once) = sanitize(text, &Canvas::default()) else { return };
    inspect::inspect(&once.svg);
    let twice = sanitize(&once.svg, &Canvas::default()).map(|sanitized| sanitized.svg);
    assert_eq!(twice.as_ref(), Ok(&once.svg));
}

/// A drawn markdown block runs, links and loads nothing, and contains no HTML.
fn drawn_markdown_is_inert(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let family = FontFamily::SourceSansPro;
    let Ok((width, height)) = markdown::measure(text, family, 16.0) else { return };
    assert!(width.is_finite() && height.is_finite() && width >= 0.0 && height >= 0.0);
    let Ok(html) = render_markdown(text) else { return };
    let svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg"><foreignObject width="{width}" height="{height}"><div>{html}</div></foreignObject></svg>"#
    );
    let Ok(drawn) = markdown::draw(&svg, family) else { return };
    let sanitized = sanitize(&drawn, &Canvas::default());
    let Ok(sanitized) = sanitized else { return };
    inspect::inspect(&sanitized.svg);
    assert_eq!(sanitized.foreign_objects, 0);
}
