//! d2 diagrams, drawn by d2-little.

mod checks;
pub(crate) mod markdown;
mod metrics;

use d2_little::fonts::{FONT_FAMILIES, FontFamily};
use d2_little::svg_render::{self, RenderOpts};
use d2_little::target::Diagram;
use d2_little::{CompileOptions, compiler, parser};

use metrics::LabelMetrics;

use crate::{ErrorCode, RenderError, Theme, source_position};

/// Theme "Dark Mauve" of d2.
const DARK: i64 = 200;
/// Padding around the diagram, in its units.
const PAD: i64 = 20;

/// Message of the error if all shapes are on other boards.
const NO_ROOT_BOARD: &str = "the root board is empty, and other boards are not supported";

/// SVG that is not sanitized yet.
pub(crate) struct D2Drawing {
    pub(crate) svg: String,
    /// Font of the text that is not monospaced by itself.
    pub(crate) font: FontFamily,
}

pub(crate) fn draw(source: &str, theme: Theme) -> Result<D2Drawing, RenderError> {
    let (parsed, _) = parser::parse("", source);
    checks::check_imports(source, &parsed)?;
    let compiled = compiler::compile_with_config("", source);
    let (graph, _) = compiled.map_err(|error| syntax_error(source, &error))?;
    checks::check(source, &graph)?;
    let theme_id = match theme {
        // The default of d2, which a theme in the source overrides.
        Theme::Light => None,
        Theme::Dark => Some(DARK),
    };
    let failed = |error: String| render_error(source, &error);
    let options = CompileOptions {
        theme_id,
        pad: Some(PAD),
        metrics: Some(Box::new(LabelMetrics::new().map_err(failed)?)),
        ..CompileOptions::default()
    };
    let (mut diagram, mut svg) = d2_little::compile(source, &options).map_err(failed)?;
    let engine = diagram.config.as_ref().and_then(|config| config.layout_engine.as_deref());
    if let Some(engine) = engine.filter(|engine| *engine != "dagre") {
        return Err(unsupported(&format!(
            "the layout engine {engine:?} is not supported, only dagre"
        )));
    }
    if has_boards(&diagram) {
        svg = draw_root_board(&mut diagram).map_err(failed)?;
    }
    let svg = String::from_utf8(svg).map_err(|_| {
        RenderError::new(ErrorCode::RendererFailed, "the renderer returned invalid UTF-8")
    })?;
    let font = text_font(&diagram);
    let svg = if svg.contains("<foreignObject") {
        markdown::draw(&svg, font).map_err(failed)?
    } else {
        svg
    };
    Ok(D2Drawing { svg, font })
}

fn has_boards(diagram: &Diagram) -> bool {
    !(diagram.layers.is_empty() && diagram.scenarios.is_empty() && diagram.steps.is_empty())
}

/// Draws only the root board, because an image shows one board.
fn draw_root_board(diagram: &mut Diagram) -> Result<Vec<u8>, String> {
    if diagram.shapes.is_empty() {
        return Err(NO_ROOT_BOARD.to_owned());
    }
    diagram.layers.clear();
    diagram.scenarios.clear();
    diagram.steps.clear();
    let config = diagram.config.clone().unwrap_or_default();
    let options = RenderOpts {
        pad: Some(PAD),
        theme_id: config.theme_id,
        dark_theme_id: config.dark_theme_id,
        sketch: config.sketch.filter(|sketch| *sketch),
        center: config.center.filter(|center| *center),
        theme_overrides: config.theme_overrides,
        dark_theme_overrides: config.dark_theme_overrides,
        ..RenderOpts::default()
    };
    svg_render::render(diagram, &options)
}

/// Returns the text font, which depends on the theme and on the sketch mode.
fn text_font(diagram: &Diagram) -> FontFamily {
    let named = |family: &&FontFamily| diagram.font_family.as_deref() == Some(&family.to_string());
    FONT_FAMILIES.iter().find(named).copied().unwrap_or(FontFamily::SourceSansPro)
}

fn unsupported(message: &str) -> RenderError {
    RenderError::new(ErrorCode::Unsupported, message)
}

fn syntax_error(source: &str, error: &compiler::CompileError) -> RenderError {
    let first = error.errors.first();
    let text = first.map_or_else(|| error.to_string(), |first| first.message.clone());
    // Some messages repeat their position.
    let message =
        source_position::split_prefix(&text).map_or(text.as_str(), |(_, _, message)| message);
    let failed = RenderError::new(ErrorCode::Syntax, message);
    match first {
        Some(first) => failed.at_byte(source, first.range.start.byte),
        None => failed,
    }
}

/// Classifies an error of a source that was compiled.
fn render_error(source: &str, error: &str) -> RenderError {
    if error.to_lowercase().contains("latex") {
        return unsupported("LaTeX formulas are not supported");
    }
    if error == NO_ROOT_BOARD {
        return unsupported(error);
    }
    if error.contains(markdown::TOO_DEEP) {
        return RenderError::new(ErrorCode::TooLarge, markdown::TOO_DEEP);
    }
    // Actors of sequence diagrams are checked by the layout.
    if error.contains("actor") {
        return RenderError::new(ErrorCode::Syntax, error);
    }
    match source_position::split_prefix(error) {
        Some((line, column, message)) => {
            RenderError::new(ErrorCode::Syntax, message).at(source, line, column)
        }
        None => RenderError::new(ErrorCode::RendererFailed, error),
    }
}
