//! The kind `render`: diagrams, from mermaid and d2 to SVG and PNG.
//!
//! # What comes in
//!
//! ```json
//! {"source": "flowchart LR\n  A --> B", "format": "mermaid", "outputType": "svg",
//!  "options": {"theme": "dark", "background": "transparent"}}
//! ```
//!
//! `options` may be left out, and so may each of them: `theme` (`light`, `dark`), `background` (`#rrggbb`,
//! `transparent`), and for PNG either `scale` or `width`. What a source itself says about its theme wins.
//!
//! # What comes of it
//!
//! The picture is the artifact `diagram.svg` or `diagram.png`, the result `{"contentType", "bytes"}`.
//! A source that cannot be drawn fails the job at once, with the code `syntax`, `unsupported`, `too-large` or
//! `took-too-long`; the message says where, as far as the renderer knows.
//!
//! # What a hostile source can do
//!
//! Drawing runs in a child process that bounds its own memory and processor time, and that is killed when it
//! takes too long: a source that nests too deep for a stack ends the child and not the server. Every SVG is
//! written anew from a list of what is harmless ([`clean`]), so that no script, no link and nothing that is loaded
//! from elsewhere is in what we serve, whatever a renderer let through.

pub mod clean;
mod d2;
mod error;
mod fonts;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod identity;
mod kind;
mod limits;
mod mermaid;
mod options;
mod place;
mod png;
mod pool;
mod request;
#[cfg(test)]
mod tests;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use error::{Code, RenderError};
pub use identity::RENDERER;
pub use kind::{RenderKind, Rendered, queue};
pub use limits::Limits;
pub use options::{Background, Options, Theme};
pub use request::{Format, OutputType, Request};
pub use worker::serve;

use clean::{Canvas, Text};

/// Draws what is asked for. Pure, and without a bound on time or memory: strangers' sources belong in a
/// [worker](serve).
pub fn picture(request: &Request, limits: &Limits) -> Result<Vec<u8>, RenderError> {
    request.check(limits)?;
    // The renderers are other people's, and a source that one of them did not expect is no reason to fall over.
    let drawn = catch_unwind(AssertUnwindSafe(|| draw(request, limits)));
    drawn.unwrap_or_else(|_| {
        Err(RenderError::new(Code::RendererFailed, "the renderer gave up on this source"))
    })
}

fn draw(request: &Request, limits: &Limits) -> Result<Vec<u8>, RenderError> {
    let Request { source, format, output_type, options } = request;
    let drawn = match format {
        Format::Mermaid => mermaid::draw(source, options.theme)?,
        Format::D2 => d2::draw(source, options.theme)?,
    };
    // A d2 source may paint its own canvas; mermaid never does.
    let background = match (options.background, format) {
        (None, Format::Mermaid) => Some(options.theme.background()),
        (asked, Format::Mermaid | Format::D2) => asked,
    };
    // d2's fonts are inside of its pictures.
    let text = match format {
        Format::Mermaid => Some(Text { font: fonts::SANS, colour: options.theme.text() }),
        Format::D2 => None,
    };
    let dark = options.theme == Theme::Dark;
    let painted = *output_type == OutputType::Png;
    let cleaned = clean::clean(&drawn, &Canvas { background, text, dark, painted })?;
    if cleaned.foreign_objects > 0 {
        let why = "text that is HTML, such as a block of markdown, cannot be drawn";
        return Err(RenderError::new(Code::Unsupported, why));
    }
    let svg = limits.output(cleaned.svg)?;
    match output_type {
        OutputType::Svg => Ok(svg.into_bytes()),
        OutputType::Png => limits.output(png::paint(&svg, options, limits)?),
    }
}
