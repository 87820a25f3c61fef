//! Mermaid diagrams, drawn by merman.

use std::sync::LazyLock;

use merman::svg::export::NativeFontContext;
use merman::svg::{RenderError as SvgError, SvgEnvironment, SvgPipeline, SvgRenderOptions};
use merman::{
    Engine, MermaidConfig, OperationControl, ParseOptions, RenderError as Refusal, RenderOutput,
    RenderRequest, Renderer, SvgRequest, TerminalDiagnostic,
};
use serde_json::{Value, json};

use crate::{ErrorCode, RenderError, Theme, fonts};

/// Id of the SVG's root element, which all its style rules start with.
const ID: &str = "diagram";

static FONTS: LazyLock<Option<NativeFontContext>> = LazyLock::new(|| fonts::measuring().ok());
static LIGHT: LazyLock<Renderer> = LazyLock::new(|| renderer(Theme::Light, true));
static DARK: LazyLock<Renderer> = LazyLock::new(|| renderer(Theme::Dark, true));
static LIGHT_AND_LARGE: LazyLock<Renderer> = LazyLock::new(|| renderer(Theme::Light, false));
static DARK_AND_LARGE: LazyLock<Renderer> = LazyLock::new(|| renderer(Theme::Dark, false));

/// Resource limit of the renderer that only large diagrams with HTML labels exceed.
const HTML_LIMIT: &str = "svg_fallback";
/// Source size from which HTML labels are not tried, because the limit is reported only after seconds.
const LARGE_BYTES: usize = 32 * 1024;

/// Creates a renderer with or without HTML labels.
///
/// The pipeline converts HTML labels to SVG text. They are placed better than plain text labels, except
/// in flowcharts, but cost so much that large diagrams fail.
fn renderer(theme: Theme, html: bool) -> Renderer {
    let config = MermaidConfig::from_value(config(theme, html));
    Renderer::new()
        .with_engine(Engine::new().with_site_config(config))
        .with_parse_options(ParseOptions::strict())
}

/// Returns the site configuration. Some diagram types ignore themes and need every colour.
fn config(theme: Theme, html: bool) -> Value {
    let text = theme.text_colour();
    let (name, fill, label, line) = match theme {
        Theme::Light => ("default", "#efefef", "#000000", "#444444"),
        Theme::Dark => ("dark", "#333333", "#e0dfdf", text),
    };
    json!({
        "theme": name,
        "look": "classic",
        "htmlLabels": html,
        "c4": {
            "boundary_border_color": line, "boundary_font_color": line,
            "relationship_text_color": line, "relationship_line_color": line,
        },
        "flowchart": {"htmlLabels": false},
        "journey": {"taskFontFamily": fonts::SANS},
        "fontFamily": fonts::SANS,
        "packet": {
            "startByteColor": text, "endByteColor": text, "labelColor": label, "titleColor": label,
            "blockStrokeColor": text, "blockFillColor": fill,
        },
        "themeVariables": {
            "fontFamily": fonts::SANS,
            "quadrantPointFill": text,
            "treeView": {"labelColor": text, "lineColor": text},
            "xyChart": {"backgroundColor": "transparent"},
        },
    })
}

/// Draws a diagram as SVG that is not sanitized yet.
pub(crate) fn draw(source: &str, theme: Theme) -> Result<String, RenderError> {
    // Mermaid trims sources, too; some of its grammars reject white space at the end.
    let source = source.trim_end();
    let no_fonts = || RenderError::new(ErrorCode::RendererFailed, "the fonts cannot be loaded");
    let fonts = FONTS.clone().ok_or_else(no_fonts)?;
    let environment =
        SvgEnvironment::deterministic().with_native_font_context(fonts).map_err(|_| no_fonts())?;
    let options =
        SvgRenderOptions { diagram_id: Some(ID.to_owned()), ..SvgRenderOptions::default() };
    let pipeline = Some(SvgPipeline::resvg_safe());
    let request = SvgRequest { environment, options, pipeline, ..SvgRequest::default() };
    let draw = |renderer: &Renderer| {
        let request = RenderRequest::svg(source, OperationControl::new(), request.clone());
        renderer.render(request)
    };
    let (small, large) = match theme {
        Theme::Light => (&LIGHT, &LIGHT_AND_LARGE),
        Theme::Dark => (&DARK, &DARK_AND_LARGE),
    };
    let drawn = if source.len() < LARGE_BYTES { draw(small) } else { draw(large) };
    let drawn = match drawn {
        Err(Refusal::ResourceLimitExceeded(limit)) if limit.id.starts_with(HTML_LIMIT) => {
            draw(large)
        }
        drawn => drawn,
    };
    match drawn {
        Ok(RenderOutput::Svg(Some(svg))) => Ok(svg.into_parts().0),
        Ok(_) => Err(unknown(source)),
        Err(refusal) => Err(explain(source, refusal)),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "defined by the renderer and non-exhaustive")]
fn explain(source: &str, refusal: Refusal) -> RenderError {
    match refusal {
        Refusal::NoDiagram => unknown(source),
        Refusal::Parse(diagnostic) => not_parsed(source, &diagnostic),
        Refusal::ResourceLimitExceeded(limit) => RenderError::new(
            ErrorCode::TooLarge,
            format!(
                "the diagram is too large: {} is {}, the limit is {}",
                limit.id, limit.actual, limit.maximum
            ),
        ),
        Refusal::Svg(error @ SvgError::MissingCapability { .. })
            if error.to_string().contains("`math`") =>
        {
            RenderError::new(ErrorCode::Unsupported, "formulas ($$…$$) are not supported")
        }
        Refusal::Svg(
            error @ (SvgError::UnsupportedDiagram { .. } | SvgError::MissingCapability { .. }),
        ) => RenderError::new(ErrorCode::Unsupported, format!("not supported: {error}")),
        // Valid by the grammar but not by the diagram type.
        Refusal::Svg(error @ (SvgError::InvalidModel { .. } | SvgError::Color(_))) => {
            RenderError::new(ErrorCode::Syntax, error.to_string())
        }
        other => RenderError::new(ErrorCode::RendererFailed, other.to_string()),
    }
}

fn not_parsed(source: &str, diagnostic: &TerminalDiagnostic) -> RenderError {
    let details = diagnostic.terminal_diagnostic_details();
    match details.code.as_str() {
        "merman.parse.no_diagram_detected" => return unknown(source),
        "merman.parse.unsupported_diagram" => {
            let named = details.diagram_type.unwrap_or_default();
            let message = format!("diagrams of the type {named:?} are not supported");
            return RenderError::new(ErrorCode::Unsupported, message);
        }
        _ => {}
    }
    let error = RenderError::new(ErrorCode::Syntax, diagnostic.terminal_safe_message());
    match details.span {
        Some(span) => error.at_byte(source, span.start),
        None => error,
    }
}

fn unknown(source: &str) -> RenderError {
    let lines = || source.lines().zip(1..).map(|(line, number)| (line.trim(), number));
    let first = lines().find(|(line, _)| !line.is_empty() && !line.starts_with("%%"));
    let error = RenderError::new(
        ErrorCode::Unsupported,
        "the source does not start with a supported diagram type",
    );
    match first {
        Some((_, line)) => error.at(source, line, 1),
        None => RenderError::new(ErrorCode::Syntax, "the source is empty"),
    }
}
