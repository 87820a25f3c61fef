//! Sources that try to run or load something in a viewer.

use super::{request, svg, text_of};
use crate::sanitize::inspect::inspect;
use crate::sanitize::{Canvas, sanitize};
use crate::{ErrorCode, Format, RenderLimits, render};

#[test]
fn hostile_mermaid_is_inert_or_rejected() {
    for source in [
        "flowchart LR\n  A[\"<script>alert(1)</script>\"] --> B[\"<img src=x onerror=alert(1)>\"]",
        "flowchart LR\n  A --> B\n  click A \"javascript:alert(1)\"\n  click B href \"https://x.example/\" _blank",
        "flowchart LR\n  A --> B\n  click A call alert(1)",
        "%%{init: {\"securityLevel\": \"loose\", \"htmlLabels\": true, \"flowchart\": {\"htmlLabels\": true}}}%%\nflowchart LR\n  A[\"<b onclick='x()'>bold</b><iframe src='//x.example'></iframe>\"]",
        "%%{init: {\"themeCSS\": \"@import url(https://x.example/a.css); .node{background:url(https://x.example/)}\"}}%%\nflowchart LR\n  A --> B",
        "%%{init: {\"themeVariables\": {\"primaryColor\": \"red;} @import 'https://x.example/'; .x{\"}}}%%\nflowchart LR\n  A --> B",
        "%%{init: {\"fontFamily\": \"x;} @import 'https://x.example/'; .x{\"}}%%\nflowchart LR\n  A --> B",
        "flowchart LR\n  A --> B\n  style A fill:url(https://x.example/)\n  classDef c fill:u\\72l(//x.example)\n  class B c",
        "flowchart LR\n  A@{ img: \"https://x.example/a.png\", label: \"Label\" }",
        "sequenceDiagram\n  participant A\n  links A: {\"x\": \"javascript:alert(1)\"}\n  A->>A: <script>alert(1)</script>",
        "classDiagram\n  class A\n  link A \"javascript:alert(1)\"",
        "gantt\n  section S\n  T :t, 2024-01-01, 1d\n  click t href \"javascript:alert(1)\"",
        "pie title <svg onload=alert(1)>\n  \"<script>\" : 1",
        "stateDiagram-v2\n  [*] --> A\n  A : <a href='javascript:alert(1)'>x</a>",
    ] {
        if let Err(error) = svg(Format::Mermaid, source) {
            assert_ne!(error.code, ErrorCode::RendererFailed, "{source}: {error}");
        }
    }
}

#[test]
fn hostile_d2_is_inert_or_rejected() {
    for source in [
        "a: \"<script>alert(1)</script>\"",
        "a: {link: \"javascript:alert(1)\"; tooltip: \"<script>\"}\na -> b",
        "a: {icon: https://x.example/a.svg}",
        "a: {shape: image; icon: /etc/passwd}",
        "a: {style.fill: \"url(https://x.example/)\"}",
        "a: |md <script>alert(1)</script> |",
        "\"a\\\" onload=\\\"alert(1)\": b",
        "a.class: \"x\\\" onload=\\\"y\"",
    ] {
        if let Err(error) = svg(Format::D2, source) {
            assert_ne!(error.code, ErrorCode::RendererFailed, "{source}: {error}");
        }
    }
}

#[test]
fn hostile_markdown_is_inert() {
    for (html, shown) in [
        ("a <script>alert(1)</script> b", "ab"),
        ("<div onclick=\"f()\">a<iframe src=\"//x.example\"></iframe></div>", "a"),
        ("<img src=\"x\" onerror=\"alert(1)\" alt=\"alt\"/>", "alt"),
        ("[a](javascript:alert(1)) <a href=\"javascript:alert(1)\">b</a>", "ab"),
        ("![a](https://x.example/a.png)", "a"),
        (
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><foreignObject><p>a</p></foreignObject></svg>b",
            "b",
        ),
        ("<b style=\"background:url(https://x.example)\">a</b>", "a"),
        ("<style>.md blockquote{fill:url(//x.example)}</style>a", "a"),
        ("<p xmlns:h=\"http://x.example\"><h:script>f()</h:script>a</p>", "a"),
        ("&lt;script&gt;alert(1)&lt;/script&gt;", "<script>alert(1)</script>"),
        ("`<script>f()</script>`", "<script>f()</script>"),
        ("\u{202e}a", "\u{202e}a"),
    ] {
        let drawn = svg(Format::D2, &format!("x: |md\n  {html}\n|")).unwrap();
        assert_eq!(text_of(&drawn), shown, "{html}");
        assert!(!drawn.contains("x.example"), "{drawn}");
    }
}

#[test]
fn markdown_that_breaks_out_of_its_element_is_rejected() {
    for html in [
        "</div></foreignObject><script>alert(1)</script><foreignObject><div>",
        "</p></body>",
        "<b>open",
        "<!DOCTYPE html>",
        "<p>&undeclared;</p>",
    ] {
        let error = svg(Format::D2, &format!("x: |md\n  {html}\n|")).unwrap_err();
        assert_eq!((error.code, error.line), (ErrorCode::Syntax, Some(1)), "{html}: {error}");
    }
}

#[test]
fn large_markdown_is_drawn_and_deep_markdown_is_rejected() {
    let markdown = |text: &str| svg(Format::D2, &format!("x: |md\n  {text}\n|"));
    let word = "W".repeat(20_000);
    assert!(text_of(&markdown(&word).unwrap()).contains(&word));
    let error = markdown(&format!("{}deep", "> ".repeat(300))).unwrap_err();
    assert_eq!(error.code, ErrorCode::TooLarge, "{error}");
}

#[test]
fn source_or_image_over_the_limit_is_rejected() {
    let limits = RenderLimits { source_bytes_max: 10, ..RenderLimits::default() };
    let error = render(&request(Format::Mermaid, super::FLOW), &limits).unwrap_err();
    assert_eq!(error.code, ErrorCode::TooLarge);
    let limits = RenderLimits { output_bytes_max: 10, ..RenderLimits::default() };
    let error = render(&request(Format::Mermaid, super::FLOW), &limits).unwrap_err();
    assert_eq!(error.code, ErrorCode::TooLarge);
}

#[test]
fn active_content_is_removed_from_svg() {
    let hostile = r##"<?xml version="1.0"?><?xml-stylesheet href="http://x.example/"?>
        <svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" xmlns:h="http://www.w3.org/1999/xhtml" onload="f()" viewBox="0 0 5 5">
        <!-- comment --><script>f()</script><h:script>f()</h:script><SCRIPT>f()</SCRIPT>
        <a x:href="javascript:f()"><text onclick="f()">kept</text></a>
        <foreignObject><h:iframe src="http://x.example/"/></foreignObject>
        <image href="http://x.example/a.png"/><image href="data:image/png;base64,AAAA"/><image x:href="file:///etc/passwd"/>
        <use href="#a"/><animate attributeName="href" to="javascript:f()"/><set attributeName="onclick" to="f()"/>
        <rect style="fill:url(http://x.example/);stroke:red" fill="url(#a)" mask="url(http://x.example/#m)"/>
        <style>@import "http://x.example/"; .a{fill:red}</style><style><![CDATA[.b{fill:url(//x.example)}]]></style>
        </svg>"##;
    let sanitized = sanitize(hostile, &Canvas::default()).unwrap();
    inspect(&sanitized.svg);
    assert_eq!(sanitized.foreign_objects, 1);
    assert_eq!(text_of(&sanitized.svg), "kept");
    assert!(!sanitized.svg.contains("x.example"), "{}", sanitized.svg);
    for kept in ["data:image/png;base64,AAAA", "stroke:red;", "url(#a)", ".a{fill:red;}"] {
        assert!(sanitized.svg.contains(kept), "{kept} in {}", sanitized.svg);
    }
}

#[test]
fn nested_use_elements_are_dropped_and_too_many_are_rejected() {
    let mut doubling = String::new();
    for n in 1..30 {
        let before = n - 1;
        let twice = format!(r##"<use href="#a{before}"/>"##).repeat(2);
        doubling.extend([format!(r#"<g id="a{n}">"#), twice, "</g>".to_owned()]);
    }
    let laughs = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg"><g id="a0"><path/></g>{doubling}</svg>"#
    );
    let sanitized = sanitize(&laughs, &Canvas::default()).unwrap();
    inspect(&sanitized.svg);
    assert_eq!(sanitized.svg.matches("<use ").count(), 2);
    let (paths, use_elements) = ("<path/>".repeat(1_000), r##"<use href="#a"/>"##.repeat(1_000));
    let many = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg"><g id="a">{paths}</g>{use_elements}</svg>"#
    );
    assert_eq!(sanitize(&many, &Canvas::default()).unwrap_err().code, ErrorCode::TooLarge);
}

#[test]
fn document_types_and_other_roots_are_rejected() {
    for text in [
        r#"<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>"#,
        r#"<html xmlns="http://www.w3.org/1999/xhtml"/>"#,
        "<svg/>",
        "no svg",
        "",
    ] {
        assert!(sanitize(text, &Canvas::default()).is_err(), "{text}");
    }
}

#[test]
fn svg_nested_too_deeply_is_rejected() {
    let open = "<g>".repeat(200);
    let close = "</g>".repeat(200);
    let deep = format!(r#"<svg xmlns="http://www.w3.org/2000/svg">{open}{close}</svg>"#);
    assert_eq!(sanitize(&deep, &Canvas::default()).unwrap_err().code, ErrorCode::TooLarge);
}
