//! Diagrams of every type, options, errors and hostile sources.

mod d2;
mod hostile;
mod mermaid;

use crate::{
    ErrorCode, Format, Options, OutputType, RenderError, RenderLimits, RenderRequest, render,
};

fn request(format: Format, source: &str) -> RenderRequest {
    RenderRequest {
        source: source.to_owned(),
        format,
        output_type: OutputType::Svg,
        options: Options::default(),
    }
}

/// Renders and checks that the SVG is inert.
fn svg(format: Format, source: &str) -> Result<String, RenderError> {
    let svg = render(&request(format, source), &RenderLimits::default())?;
    let svg = String::from_utf8(svg).unwrap();
    crate::sanitize::inspect::inspect(&svg);
    Ok(svg)
}

/// Returns the visible text without spaces, because labels are split into lines and words.
fn text_of(svg: &str) -> String {
    let document = roxmltree::Document::parse(svg).unwrap();
    let mut text = String::new();
    let mut todo = vec![document.root_element()];
    while let Some(node) = todo.pop() {
        match node.tag_name().name() {
            "style" | "defs" | "marker" => {}
            "use" => {
                let id = node.attribute("href").unwrap().trim_start_matches('#');
                todo.extend(document.descendants().find(|other| other.attribute("id") == Some(id)));
            }
            _ => {
                text.extend(
                    node.text()
                        .filter(|_| node.is_text())
                        .map(|text| text.split_whitespace())
                        .into_iter()
                        .flatten(),
                );
                todo.extend(node.children().rev());
            }
        }
    }
    text
}

fn png(format: Format, source: &str, options: Options) -> Result<(u32, u32), RenderError> {
    let request =
        RenderRequest { output_type: OutputType::Png, options, ..request(format, source) };
    let png = render(&request, &RenderLimits::default())?;
    assert_eq!(png.get(..8), Some(b"\x89PNG\r\n\x1a\n".as_slice()));
    let number = |at| u32::from_be_bytes(png.get(at..at + 4).unwrap().try_into().unwrap());
    Ok((number(16), number(20)))
}

const FLOW: &str = "flowchart LR\n  A[Begin] --> B[End]\n";

#[test]
fn d2_diagram_contains_its_labels() {
    let drawn =
        svg(Format::D2, "direction: right\nweb server -> database: asks\nround: {shape: circle}\n")
            .unwrap();
    let text = text_of(&drawn);
    for label in ["webserver", "database", "asks", "round"] {
        assert!(text.contains(label), "{label} in {text}");
    }
}

#[test]
fn svg_has_the_requested_background() {
    let with = |format, source, background: &str| {
        let background = Some(background.parse().unwrap());
        let options = Options { background, ..Options::default() };
        let request = RenderRequest { options, ..request(format, source) };
        String::from_utf8(render(&request, &RenderLimits::default()).unwrap()).unwrap()
    };
    for (format, source) in [(Format::Mermaid, FLOW), (Format::D2, "a -> b")] {
        let red = with(format, source, "#fe0001");
        assert!(red.contains("fill:#fe0001"), "{red}");
        let transparent = with(format, source, "transparent");
        assert_eq!(
            transparent.len()
                + r#"<rect x="" y="" width="" height="" style="fill:#fe0001;stroke:none"/>"#.len()
                + view_digits(&red),
            red.len()
        );
    }
}

/// Counts the digits of the view box.
fn view_digits(svg: &str) -> usize {
    let rect = svg.split_once("<rect x=\"").unwrap().1.split_once(" style").unwrap().0;
    rect.chars().filter(|letter| letter.is_ascii_digit() || "-.".contains(*letter)).count()
}

#[test]
fn dark_theme_changes_the_image() {
    for (format, source) in [(Format::Mermaid, FLOW), (Format::D2, "a -> b")] {
        let options = Options { theme: crate::Theme::Dark, ..Options::default() };
        let dark = RenderRequest { options, ..request(format, source) };
        let dark = render(&dark, &RenderLimits::default()).unwrap();
        assert_ne!(dark, render(&request(format, source), &RenderLimits::default()).unwrap());
    }
}

#[test]
fn png_has_the_requested_size() {
    for (format, source) in [(Format::Mermaid, FLOW), (Format::D2, "a -> b")] {
        let (width, height) = png(format, source, Options::default()).unwrap();
        let wide = Options { width: Some(700), ..Options::default() };
        assert_eq!(png(format, source, wide).unwrap().0, 700);
        let twice = Options { scale: Some(2.0), ..Options::default() };
        let (double_width, double_height) = png(format, source, twice).unwrap();
        assert!(double_width.abs_diff(2 * width) <= 1 && double_height.abs_diff(2 * height) <= 1);
    }
}

#[test]
fn contradictory_or_out_of_range_options_are_rejected() {
    let rejected = |output_type, options| {
        let request = RenderRequest { output_type, options, ..request(Format::Mermaid, FLOW) };
        let error = render(&request, &RenderLimits::default()).unwrap_err();
        assert_eq!(error.code, ErrorCode::BadInput, "{error}");
    };
    let none = Options::default();
    rejected(OutputType::Svg, Options { scale: Some(2.0), ..none });
    rejected(OutputType::Svg, Options { width: Some(200), ..none });
    rejected(OutputType::Png, Options { scale: Some(1.0), width: Some(200), ..none });
    for scale in [0.0, -1.0, 1e9, f64::NAN] {
        rejected(OutputType::Png, Options { scale: Some(scale), ..none });
    }
    for width in [0, u32::MAX] {
        rejected(OutputType::Png, Options { width: Some(width), ..none });
    }
}

#[test]
fn render_input_with_an_unknown_key_is_rejected() {
    let read = |input: &str| serde_json::from_str::<RenderRequest>(input);
    read(r##"{"source":"","format":"d2","outputType":"png","options":{"background":"#00ff00"}}"##)
        .unwrap();
    for wrong in [
        r#"{"source":"","format":"d2","outputType":"png","style":1}"#,
        r#"{"source":"","format":"d2","outputType":"png","options":{"colour":1}}"#,
        r#"{"source":"","format":"d2","outputType":"gif"}"#,
        r#"{"source":"","format":"dot","outputType":"png"}"#,
        r#"{"source":"","format":"d2","outputType":"png","options":{"background":"red"}}"#,
        r#"{"source":"","outputType":"png"}"#,
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn syntax_error_has_a_position() {
    let error = svg(Format::Mermaid, "flowchart LR\n  A --> B\n  B --> [\n").unwrap_err();
    assert_eq!((error.code, error.line), (ErrorCode::Syntax, Some(3)), "{error:?}");
    assert_eq!(error.excerpt.as_deref(), Some("B --> ["));
    let front = "---\ntitle: T\n---\nflowchart LR\n  A --> B\n  B --> [\n";
    let error = svg(Format::Mermaid, front).unwrap_err();
    assert_eq!((error.code, error.line), (ErrorCode::Syntax, Some(6)), "{error:?}");
    let error = svg(Format::D2, "a -> b\nc: {\n  d -> \n}\n").unwrap_err();
    assert_eq!((error.code, error.line), (ErrorCode::Syntax, Some(3)), "{error:?}");
    assert_eq!(error.excerpt.as_deref(), Some("d ->"));
}

#[test]
fn control_character_is_a_syntax_error() {
    for format in [Format::Mermaid, Format::D2] {
        for (letter, named) in [('\u{1}', "U+0001"), ('\u{1b}', "U+001B"), ('\u{ffff}', "U+FFFF")] {
            let error = svg(format, &format!("x\ny {letter}[31m")).unwrap_err();
            assert_eq!((error.code, error.line), (ErrorCode::Syntax, Some(2)), "{error:?}");
            assert!(error.message.contains(named), "{error:?}");
            assert!(!error.to_string().contains('\u{1b}'), "{error:?}");
        }
    }
    svg(Format::D2, "a: \"x\ty\"\r\nb").unwrap();
}

#[test]
fn white_space_at_the_end_of_mermaid_is_ignored() {
    svg(Format::Mermaid, "treemap-beta\n\"a\"\n  \"b\": 1\n   \n \n").unwrap();
}
