//! SVG sanitizer: the output runs, links and loads nothing.
//!
//! The SVG is parsed as XML and rewritten from an allow-list: known elements and attributes in the SVG
//! namespace without prefixes, escaped text, and styles rule by rule. Unknown content is dropped, so that
//! new features of a renderer or of the standard stay out until they are listed. Document types are
//! rejected, and with them the entities that only they can declare.

mod allowed;
mod css;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod inspect;
mod use_elements;

use std::fmt::Write as _;

use roxmltree::{Attribute, Document, Node, ParsingOptions};

use crate::{Background, ErrorCode, RenderError};
use use_elements::UseElements;

const SVG: &str = "http://www.w3.org/2000/svg";
const XLINK: &str = "http://www.w3.org/1999/xlink";
const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// Limits the memory of the parsed document.
const NODES_MAX: u32 = 1_000_000;
/// Viewers recurse into elements and may overflow their stack.
const DEPTH_MAX: usize = 128;
/// Class of the element whose first child is the background of d2.
const D2_ROOT: &str = "d2-svg";

/// Changes made to an SVG while it is sanitized.
#[derive(Debug, Clone, Copy, Default)]
pub struct Canvas {
    pub background: Option<Background>,
    /// Replaces fonts by the one that text was measured with.
    pub text: Option<TextStyle>,
    pub dark: bool,
    /// Written for resvg, which reads CSS angles without a unit; browsers need the unit.
    pub rasterized: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct TextStyle {
    /// Font families, in order of preference.
    pub font: &'static str,
    pub colour: &'static str,
}

const FONT_SIZE: &str = "16";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SanitizedSvg {
    pub svg: String,
    /// Dropped `foreignObject` elements. Their HTML text is missing from the image.
    pub foreign_objects: usize,
}

/// Rewrites an SVG from the allow-list.
pub fn sanitize(svg: &str, canvas: &Canvas) -> Result<SanitizedSvg, RenderError> {
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(svg, options).map_err(|error| {
        if matches!(error, roxmltree::Error::NodesLimitReached) {
            return too_deep_or_many();
        }
        let message = format!("the renderer returned invalid XML: {error}");
        RenderError::new(ErrorCode::RendererFailed, message)
    })?;
    let root = document.root_element();
    if !root.has_tag_name((SVG, "svg")) {
        return Err(RenderError::new(ErrorCode::RendererFailed, "the renderer returned no SVG"));
    }
    let use_elements = UseElements::collect(&document);
    let svg = String::with_capacity(svg.len());
    let mut writer = SvgWriter { svg, foreign_objects: 0, canvas, use_elements };
    writer.tree(root)?;
    Ok(SanitizedSvg { svg: writer.svg, foreign_objects: writer.foreign_objects })
}

fn too_deep_or_many() -> RenderError {
    let message = "the image has too many elements or nests them too deeply";
    RenderError::new(ErrorCode::TooLarge, message)
}

struct SvgWriter<'c> {
    svg: String,
    foreign_objects: usize,
    canvas: &'c Canvas,
    use_elements: UseElements<'c>,
}

/// Work list in place of recursion, because the source controls the depth.
enum Todo<'a, 'input> {
    Open(Node<'a, 'input>, usize),
    /// Name of an element, and the length of the output behind its start tag.
    Close(&'static str, usize),
}

impl SvgWriter<'_> {
    fn tree(&mut self, root: Node<'_, '_>) -> Result<(), RenderError> {
        let mut todo = vec![Todo::Open(root, 0)];
        while let Some(next) = todo.pop() {
            let (node, depth) = match next {
                Todo::Open(node, depth) => (node, depth),
                Todo::Close(name, opened) => {
                    self.close(name, opened);
                    continue;
                }
            };
            if depth > DEPTH_MAX {
                return Err(too_deep_or_many());
            }
            if node.is_text() {
                escape(&mut self.svg, node.text().unwrap_or_default());
                continue;
            }
            if !node.is_element() || self.is_replaced_background(node) {
                continue;
            }
            let tag = node.tag_name();
            let name = allowed::element(tag.name()).filter(|_| tag.namespace() == Some(SVG));
            match name {
                Some("style") => self.style(node),
                Some("use")
                    if !self.use_elements.may_expand(node).ok_or_else(too_deep_or_many)? => {}
                Some(name) => {
                    self.open(name, node);
                    todo.push(Todo::Close(name, self.svg.len()));
                    if depth == 0 {
                        self.background(node);
                    }
                    todo.extend(node.children().rev().map(|child| Todo::Open(child, depth + 1)));
                }
                None => self.foreign_objects += usize::from(tag.name() == "foreignObject"),
            }
        }
        Ok(())
    }

    fn open(&mut self, name: &str, node: Node<'_, '_>) {
        let is_root = node.parent_element().is_none();
        self.svg.extend(["<", name]);
        if is_root {
            self.attribute("xmlns", SVG);
            self.root_attributes(node);
        }
        let mut has_href = false;
        for attribute in node.attributes() {
            let mut value = attribute.value();
            if attribute.namespace().is_none() && attribute.name() == "font-family" {
                value = css::font_for(value, self.canvas).unwrap_or(value);
            }
            match (attribute.namespace(), attribute.name()) {
                _ if is_href(&attribute) && !has_href && allowed::href(value) => {
                    has_href = true;
                    self.attribute("href", value);
                }
                // Written by `root_attributes`, with absolute values.
                (None, "width" | "height") if is_root => {}
                (None, "style") => {
                    let css = css::declarations(value, is_root, self.canvas);
                    if !css.is_empty() {
                        self.attribute("style", &css);
                    }
                }
                (None, name) if allowed::attribute(name) && css::is_harmless(value) => {
                    self.attribute(name, value);
                }
                (Some(XML), "space") => self.attribute("xml:space", value),
                _ => {}
            }
        }
        self.svg.push('>');
    }

    /// Writes the absolute size, so that a page need not guess it, and the text defaults.
    fn root_attributes(&mut self, root: Node<'_, '_>) {
        let [_, _, width, height] = view_box(root);
        if width > 0.0 && height > 0.0 {
            self.attribute("width", &width.to_string());
            self.attribute("height", &height.to_string());
        }
        if let Some(TextStyle { font, colour }) = self.canvas.text {
            for (name, value) in [("font-family", font), ("font-size", FONT_SIZE), ("fill", colour)]
            {
                if root.attribute(name).is_none() {
                    self.attribute(name, value);
                }
            }
        }
    }

    fn close(&mut self, name: &str, opened: usize) {
        if self.svg.len() == opened {
            self.svg.pop();
            self.svg.push_str("/>");
        } else {
            self.svg.extend(["</", name, ">"]);
        }
    }

    fn style(&mut self, node: Node<'_, '_>) {
        let text: String = node.children().filter_map(|child| child.text()).collect();
        let css = css::stylesheet(&text, self.canvas);
        if !css.is_empty() {
            self.svg.push_str("<style>");
            escape(&mut self.svg, &css);
            self.svg.push_str("</style>");
        }
    }

    fn attribute(&mut self, name: &str, value: &str) {
        self.svg.extend([" ", name, "=\""]);
        escape(&mut self.svg, value);
        self.svg.push('"');
    }

    /// Writes a background rectangle of the size of the view box.
    fn background(&mut self, root: Node<'_, '_>) {
        let Some(background @ Background::Colour(_)) = self.canvas.background else { return };
        let [x, y, width, height] = view_box(root).map(|number| number.to_string());
        // A style, because a stylesheet rule for rectangles would override an attribute.
        let written = write!(
            self.svg,
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" style="fill:{background};stroke:none"/>"#
        );
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    }

    /// Returns true for the background rectangle of d2 if another background is requested.
    fn is_replaced_background(&self, node: Node<'_, '_>) -> bool {
        self.canvas.background.is_some()
            && node.has_tag_name((SVG, "rect"))
            && node.prev_sibling_element().is_none()
            && node
                .parent_element()
                .and_then(|parent| parent.attribute("class"))
                .is_some_and(|classes| classes.split_whitespace().any(|class| class == D2_ROOT))
    }
}

/// Returns true for `href` and the older `xlink:href`.
fn is_href(attribute: &Attribute<'_, '_>) -> bool {
    attribute.name() == "href" && matches!(attribute.namespace(), None | Some(XLINK))
}

/// Returns the `viewBox`, or one made of width and height.
fn view_box(root: Node<'_, '_>) -> [f64; 4] {
    let numbers: Vec<f64> = root
        .attribute("viewBox")
        .unwrap_or_default()
        .split([' ', ','])
        .filter_map(|number| number.parse().ok())
        .filter(|number: &f64| number.is_finite())
        .collect();
    if let Ok(view_box) = numbers.try_into() {
        return view_box;
    }
    let length = |name| {
        let text = root.attribute(name).map(|text| text.trim_end_matches("px"));
        text.and_then(|text| text.parse().ok()).filter(|length: &f64| length.is_finite())
    };
    [0.0, 0.0, length("width").unwrap_or(0.0), length("height").unwrap_or(0.0)]
}

/// Writes text with the characters escaped that have a meaning in XML.
pub(crate) fn escape(svg: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => svg.push_str("&amp;"),
            '<' => svg.push_str("&lt;"),
            '>' => svg.push_str("&gt;"),
            '"' => svg.push_str("&quot;"),
            // XML parsers would normalize it to a newline.
            '\r' => svg.push_str("&#13;"),
            letter => svg.push(letter),
        }
    }
}
