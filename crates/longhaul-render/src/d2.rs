//! d2 diagrams, drawn by d2-little.

use d2_little::ast::{ArrayNode, Import, Map, MapNode, ValueBox};
use d2_little::{CompileOptions, compiler, parser};

use crate::{ErrorCode, RenderError, Theme, source_position};

/// Theme "Dark Mauve" of d2.
const DARK: i64 = 200;
/// Padding around the diagram, in its units.
const PAD: i64 = 20;

/// Draws a diagram as SVG that is not sanitized yet.
pub(crate) fn draw(source: &str, theme: Theme) -> Result<String, RenderError> {
    let (parsed, _) = parser::parse("", source);
    if let Some(import) = import_in(&parsed) {
        let (start, error) =
            (import.range.start, unsupported("imports of other files are not supported"));
        return Err(error.at(source, start.line + 1, start.column + 1));
    }
    if let Err(error) = compiler::compile_with_config("", source) {
        let first = error.errors.first();
        let text = first.map_or_else(|| error.to_string(), |first| first.message.clone());
        // Some messages repeat their position.
        let message =
            source_position::split_prefix(&text).map_or(text.as_str(), |(_, _, message)| message);
        let failed = RenderError::new(ErrorCode::Syntax, message);
        return Err(match first {
            Some(first) => failed.at_byte(source, first.range.start.byte),
            None => failed,
        });
    }
    let theme_id = match theme {
        // The default of d2, which a theme in the source overrides.
        Theme::Light => None,
        Theme::Dark => Some(DARK),
    };
    let options = CompileOptions { theme_id, pad: Some(PAD), ..CompileOptions::default() };
    let (diagram, svg) =
        d2_little::compile(source, &options).map_err(|error| render_error(source, &error))?;
    if !(diagram.layers.is_empty() && diagram.scenarios.is_empty() && diagram.steps.is_empty()) {
        return Err(unsupported("layers, scenarios and steps are not supported"));
    }
    let engine = diagram.config.and_then(|config| config.layout_engine);
    if let Some(engine) = engine.filter(|engine| engine != "dagre") {
        return Err(unsupported(&format!(
            "the layout engine {engine:?} is not supported, only dagre"
        )));
    }
    String::from_utf8(svg).map_err(|_| {
        RenderError::new(ErrorCode::RendererFailed, "the renderer returned invalid UTF-8")
    })
}

fn unsupported(message: &str) -> RenderError {
    RenderError::new(ErrorCode::Unsupported, message)
}

/// Classifies an error of a source that was compiled.
fn render_error(source: &str, error: &str) -> RenderError {
    if error.to_lowercase().contains("latex") {
        return unsupported("LaTeX formulas are not supported");
    }
    match source_position::split_prefix(error) {
        Some((line, column, message)) => {
            RenderError::new(ErrorCode::Syntax, message).at(source, line, column)
        }
        None => RenderError::new(ErrorCode::RendererFailed, error),
    }
}

/// Finds an import. The renderer ignores imports, so the diagram would be incomplete.
fn import_in(map: &Map) -> Option<&Import> {
    map.nodes.iter().find_map(|node| match node {
        MapNode::Import(import) => Some(import),
        MapNode::Key(key) => key.value.as_ref().and_then(import_in_value),
        MapNode::Comment(_) | MapNode::BlockComment(_) | MapNode::Substitution(_) => None,
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "defined by the renderer: all literals")]
fn import_in_value(value: &ValueBox) -> Option<&Import> {
    match value {
        ValueBox::Import(import) => Some(import),
        ValueBox::Map(map) => import_in(map),
        ValueBox::Array(array) => array.nodes.iter().find_map(|node| match node {
            ArrayNode::Import(import) => Some(import),
            ArrayNode::Map(map) => import_in(map),
            _ => None,
        }),
        _ => None,
    }
}
