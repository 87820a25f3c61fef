//! Markdown labels as SVG text.
//!
//! d2 writes a markdown label as HTML inside a `foreignObject`, which few viewers other than browsers
//! draw and which the sanitizer rejects. This module replaces it by text, boxes and lines. The same layout
//! first tells d2 the size of the label ([`measure`]) and then draws it ([`draw`]), so that the text fits.
//!
//! The HTML comes from d2's own markdown parser. It may contain HTML of the source, of which only known
//! elements have a meaning: the text of others is drawn, and scripts and styles are dropped.

mod blocks;
mod inline;
mod layout;
mod list_marker;
mod svg;
mod table;

use d2_little::fonts::FontFamily;
use d2_little::textmeasure::render_markdown;
use roxmltree::{Document, Node};

use layout::LabelLayout;
pub(crate) use svg::draw;

/// Nested elements of a label, because layout recurses into them.
const DEPTH_MAX: usize = 48;

/// Error message of a label with more than [`DEPTH_MAX`] nested elements.
pub(super) const TOO_DEEP: &str = "a markdown block nests its elements too deeply";

/// Returns width and height of a label.
pub(crate) fn measure(text: &str, family: FontFamily, size: f64) -> Result<(f64, f64), String> {
    let html = format!("<body>{}</body>", render_markdown(text)?);
    let document = Document::parse(&html).map_err(|error| error.to_string())?;
    let layout = lay_out(document.root_element(), family, size)?;
    Ok((layout.width, layout.height))
}

/// Lays out the content of an HTML element.
fn lay_out(element: Node<'_, '_>, family: FontFamily, size: f64) -> Result<LabelLayout, String> {
    // Without recursion, unlike the layout.
    let too_deep = element.descendants().any(|node| {
        node.ancestors().take(DEPTH_MAX + 1).take_while(|up| *up != element).count() > DEPTH_MAX
    });
    if too_deep {
        return Err(TOO_DEEP.to_owned());
    }
    Ok(blocks::lay_out(element, family, size))
}

#[cfg(test)]
mod tests;
