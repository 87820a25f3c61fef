//! d2 diagrams: markdown, boards and constructs that are rejected.

use super::{png, request, svg, text_of};
use crate::{ErrorCode, Format, Options, RenderLimits, RenderRequest, Theme, render};

const MARKDOWN: &str = "box: {
  note: |md
    # Plan
    Ship **durable** jobs, *soon*, with `ctx.step()` and [docs](https://example.com).

    1. first
    1. second
  |
}
box.note -> server: |md
  **asks** twice
|
";

#[test]
fn d2_markdown_is_drawn_as_text() {
    let drawn = svg(Format::D2, MARKDOWN).unwrap();
    let text = text_of(&drawn);
    let body = "Shipdurablejobs,soon,withctx.step()anddocs.";
    for label in ["Plan", body, "1.first", "2.second", "askstwice", "server"] {
        assert!(text.contains(label), "{label} in {text}");
    }
    assert!(!drawn.contains("example.com"), "{drawn}");
    for font in ["regular", "semibold", "bold", "italic", "mono"] {
        assert!(drawn.contains(&format!("-md-font-{font};src:url(")), "{font}");
    }
    assert!(!drawn.contains(".md "), "the stylesheet for HTML is of no use");
}

#[test]
fn d2_markdown_follows_the_theme() {
    let with = |theme| {
        let options = Options { theme, ..Options::default() };
        let request = RenderRequest { options, ..request(Format::D2, MARKDOWN) };
        String::from_utf8(render(&request, &RenderLimits::default()).unwrap()).unwrap()
    };
    let (light, dark) = (with(Theme::Light), with(Theme::Dark));
    // Text has a class, and the theme gives the class a colour.
    for drawn in [&light, &dark] {
        assert!(drawn.contains("class=\"fill-N1\">Plan</text>"), "{drawn}");
    }
    assert!(light.contains(".fill-N1{fill:#0A0F25;}"), "{light}");
    assert!(!dark.contains(".fill-N1{fill:#0A0F25;}"), "{dark}");
}

#[test]
fn d2_markdown_widens_its_shape() {
    let width = |words: usize| {
        let source = format!("a: |md\n  {}\n|", "word ".repeat(words));
        png(Format::D2, &source, Options::default()).unwrap().0
    };
    let (ten, twenty) = (width(10), width(20));
    assert!((300..420).contains(&ten), "{ten}");
    // Margins do not double.
    assert!((2 * ten - 60..2 * ten).contains(&twenty), "{ten} and {twenty}");
}

#[test]
fn d2_markdown_has_the_colours_of_its_shape() {
    let source = "a: |md\n  text\n| {style.font-color: \"#123456\"; style.fill: \"#fedcba\"}";
    let drawn = svg(Format::D2, source).unwrap();
    assert!(drawn.contains("fill=\"#123456\">text</text>"), "{drawn}");
    assert!(drawn.contains("fill=\"#fedcba\""), "{drawn}");
}

#[test]
fn d2_markdown_tooltip_fits_into_its_card() {
    let source = "a: {tooltip: |md\n  # Title\n  wide text | {near: top-left}}";
    let text = text_of(&svg(Format::D2, source).unwrap());
    assert!(text.contains("Title") && text.contains("widetext"), "{text}");
}

#[test]
fn d2_sketch_has_its_own_font() {
    let sketch = |on| {
        let source = format!("vars: {{d2-config: {{sketch: {on}}}}}\na: |md\n  some text\n|");
        let request =
            RenderRequest { output_type: crate::OutputType::Png, ..request(Format::D2, &source) };
        render(&request, &RenderLimits::default()).unwrap()
    };
    assert_ne!(sketch(true), sketch(false));
}

#[test]
fn only_the_root_board_is_drawn() {
    for boards in ["layers", "scenarios", "steps"] {
        let source = format!("root -> shown\n{boards}: {{one: {{hidden -> away}}}}");
        let text = text_of(&svg(Format::D2, &source).unwrap());
        assert!(text.contains("shown") && !text.contains("away"), "{boards}: {text}");
        let alone = svg(Format::D2, &format!("{boards}: {{one: {{hidden -> away}}}}"));
        assert_eq!(alone.unwrap_err().code, ErrorCode::Unsupported, "{boards}");
    }
}

#[test]
fn d2_features_without_a_correct_image_are_unsupported() {
    for (source, line) in [
        ("x: {\n  ...@other\n}", Some(2)),
        ("a: @other", Some(1)),
        ("vars: {d2-config: {layout-engine: elk}}\na -> b", None),
        ("b\na: |latex \\frac{1}{2} |", Some(2)),
        ("a -> b: |latex \\frac{1}{2} |", Some(1)),
        ("a.b\n\na -> a.b", Some(3)),
        ("a: {b -> c}\na -> a", Some(2)),
        ("a: {\n  width: 500\n  b -> c\n}", Some(1)),
        ("a -> b\nc: {near: a}", Some(2)),
        ("a: {top: 10; left: 20}", Some(1)),
    ] {
        let error = svg(Format::D2, source).unwrap_err();
        assert_eq!((error.code, error.line), (ErrorCode::Unsupported, line), "{source}: {error}");
    }
}

#[test]
fn d2_connections_and_sizes_that_dagre_supports_are_drawn() {
    for source in [
        "a -> a",
        "a.b -> a.c",
        "a.b -> c.d",
        "a: {width: 300}",
        "a: {grid-rows: 1; width: 300; b; c}",
        "a: {near: top-center}\nb",
        "s: {shape: sequence_diagram; a -> b; a.x -> a}",
    ] {
        svg(Format::D2, source).unwrap();
    }
}

#[test]
fn d2_sequence_without_actors_is_a_syntax_error() {
    let error = svg(Format::D2, "shape: sequence_diagram\nouter.inner: {x -> y}").unwrap_err();
    assert_eq!(error.code, ErrorCode::Syntax, "{error}");
}
