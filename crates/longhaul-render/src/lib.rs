//! Diagram rendering: mermaid and d2 to sanitized SVG and to PNG.
//!
//! [`render`] draws in the calling process, without a limit on time or memory. [`WorkerPool`] draws
//! in child processes that limit their own memory and CPU time and that are killed on a timeout, so
//! that a source that nests too deeply for a stack ends a child and not the server.
//!
//! Every SVG is rewritten from a list of harmless elements and attributes ([`sanitize`]), so that no
//! script, no link and no reference to another document reaches a reader, whatever a renderer emits.

mod cache_key;
mod d2;
mod error;
mod fonts;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod limits;
mod mermaid;
mod options;
mod png;
mod pool;
mod request;
pub mod sanitize;
mod source_position;
#[cfg(test)]
mod tests;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};

use d2_little::fonts::FontFamily;

pub use cache_key::RENDERER_VERSION;
pub use error::{ErrorCode, RenderError};
pub use limits::RenderLimits;
pub use options::{Background, Options, Theme};
pub use pool::{PoolError, WorkerPool};
pub use request::{Format, OutputType, RenderRequest};
pub use worker::run_worker;

use sanitize::{Canvas, TextStyle};

/// Renders a diagram in this process. Use a [`WorkerPool`] for untrusted sources, because nothing
/// limits time or memory here.
pub fn render(request: &RenderRequest, limits: &RenderLimits) -> Result<Vec<u8>, RenderError> {
    request.check(limits)?;
    // The renderers are third-party code that may panic on a source they do not expect.
    catch_unwind(AssertUnwindSafe(|| draw(request, limits))).unwrap_or_else(|_| {
        Err(RenderError::new(ErrorCode::RendererFailed, "the renderer failed on this source"))
    })
}

fn draw(request: &RenderRequest, limits: &RenderLimits) -> Result<Vec<u8>, RenderError> {
    let RenderRequest { source, format, output_type, options } = request;
    check_characters(source)?;
    let (svg, d2_font) = match format {
        Format::Mermaid => (mermaid::draw(source, options.theme)?, FontFamily::SourceSansPro),
        Format::D2 => {
            let drawing = d2::draw(source, options.theme)?;
            (drawing.svg, drawing.font)
        }
    };
    // A d2 source may paint its own canvas; mermaid never does.
    let background = match (options.background, format) {
        (None, Format::Mermaid) => Some(options.theme.background()),
        (background, Format::Mermaid | Format::D2) => background,
    };
    // d2 embeds its fonts in the SVG.
    let text = match format {
        Format::Mermaid => {
            Some(TextStyle { font: fonts::SANS, colour: options.theme.text_colour() })
        }
        Format::D2 => None,
    };
    let dark = options.theme == Theme::Dark;
    let rasterized = *output_type == OutputType::Png;
    let sanitized = sanitize::sanitize(&svg, &Canvas { background, text, dark, rasterized })?;
    if sanitized.foreign_objects > 0 {
        let message = "HTML text is not supported";
        return Err(RenderError::new(ErrorCode::Unsupported, message));
    }
    let svg = limits.check_output(sanitized.svg)?;
    match output_type {
        OutputType::Svg => Ok(svg.into_bytes()),
        OutputType::Png => limits.check_output(png::rasterize(&svg, d2_font, options, limits)?),
    }
}

/// Rejects characters that no SVG can contain.
fn check_characters(source: &str) -> Result<(), RenderError> {
    let is_invalid = |letter: char| {
        let allowed = matches!(letter, '\t' | '\n' | '\r');
        (letter < ' ' && !allowed) || matches!(letter, '\u{fffe}' | '\u{ffff}')
    };
    match source.char_indices().find(|(_, letter)| is_invalid(*letter)) {
        Some((at, letter)) => {
            let message = format!("the character U+{:04X} is not allowed", u32::from(letter));
            Err(RenderError::new(ErrorCode::Syntax, message).at_byte(source, at))
        }
        None => Ok(()),
    }
}
