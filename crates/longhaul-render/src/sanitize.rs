//! SVG with nothing in it that runs, links or loads.
//!
//! The text is read by an XML reader and written anew: elements and attributes that are on a list, in the
//! namespace of SVG and without prefixes, text with its special characters escaped, and styles rule by rule.
//! Whatever is not known is left out, so that a renderer, or a standard, that learns something new changes
//! nothing here. Document types are refused, with the entities that only they can declare.

mod allowed;
mod css;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod inspect;
mod use_elements;

use std::fmt::Write as _;

use roxmltree::{Attribute, Document, Node, ParsingOptions};

use super::{Background, ErrorCode, RenderError};
use allowed::Fate;
use use_elements::UseElements;

const SVG: &str = "http://www.w3.org/2000/svg";
const XLINK: &str = "http://www.w3.org/1999/xlink";
const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// More elements are no diagram, and take much memory.
const NODES_MAX: u32 = 1_000_000;
/// Whoever shows an SVG goes down into it by recursion.
const DEPTH_MAX: usize = 128;
/// How d2 marks the element that its canvas is the first in.
const D2_ROOT: &str = "d2-svg";

/// What a render is to be, besides sanitize.
#[derive(Debug, Clone, Copy, Default)]
pub struct Canvas {
    /// What is behind the diagram, instead of what is there.
    pub background: Option<Background>,
    /// What its text was measured with; whatever it names itself is not that.
    pub text: Option<TextStyle>,
    /// Whether it is light on dark.
    pub dark: bool,
    /// Whether our own painter reads it, whose CSS has angles without a unit. Browsers' has none of those.
    pub rasterized: bool,
}

/// How text looks that says nothing else.
#[derive(Debug, Clone, Copy)]
pub struct TextStyle {
    /// Fonts, the first that there is.
    pub font: &'static str,
    /// Its colour.
    pub colour: &'static str,
}

/// What a renderer's text has that is larger or smaller nowhere.
const FONT_SIZE: &str = "16";

/// An SVG that can be shown to anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SanitizedSvg {
    /// The text.
    pub svg: String,
    /// How many elements with HTML in them were left out: what they said is missing.
    pub foreign_objects: usize,
}

/// Writes an SVG anew, without all that is not known to be harmless.
pub fn sanitize(svg: &str, canvas: &Canvas) -> Result<SanitizedSvg, RenderError> {
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(svg, options).map_err(|error| {
        if matches!(error, roxmltree::Error::NodesLimitReached) {
            return too_deep_or_many();
        }
        RenderError::new(ErrorCode::RendererFailed, format!("the SVG cannot be read: {error}"))
    })?;
    let root = document.root_element();
    if !(root.has_tag_name((SVG, "svg"))) {
        return Err(RenderError::new(ErrorCode::RendererFailed, "what was drawn is no SVG"));
    }
    let use_elements = UseElements::of(&document);
    let svg = String::with_capacity(svg.len());
    let mut writer = Writer { svg, foreign_objects: 0, canvas, use_elements };
    writer.tree(root)?;
    Ok(SanitizedSvg { svg: writer.svg, foreign_objects: writer.foreign_objects })
}

fn too_deep_or_many() -> RenderError {
    RenderError::new(ErrorCode::TooLarge, "the image has too many elements, or they nest too deep")
}

struct Writer<'c> {
    svg: String,
    foreign_objects: usize,
    canvas: &'c Canvas,
    use_elements: UseElements<'c>,
}

/// What is left to do: by a list and not by recursion, since the depth is somebody else's choice.
enum Todo<'a, 'input> {
    Open(Node<'a, 'input>, usize),
    Close(&'static str),
}

impl Writer<'_> {
    fn tree(&mut self, root: Node<'_, '_>) -> Result<(), RenderError> {
        let mut todo = vec![Todo::Open(root, 0)];
        while let Some(next) = todo.pop() {
            let (node, depth) = match next {
                Todo::Open(node, depth) => (node, depth),
                Todo::Close(name) => {
                    self.close(name);
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
            if !node.is_element() || self.is_old_canvas(node) {
                continue;
            }
            let name = node.tag_name();
            let fate = if name.namespace() == Some(SVG) {
                allowed::element(name.name())
            } else {
                Fate::Dropped
            };
            match fate {
                Fate::Kept("style") => self.style(node),
                Fate::Kept("use")
                    if !self.use_elements.may_copy(node).ok_or_else(too_deep_or_many)? => {}
                Fate::Kept(name) => {
                    self.open(name, node);
                    if depth == 0 {
                        self.background(node);
                    }
                    todo.push(Todo::Close(name));
                    todo.extend(node.children().rev().map(|child| Todo::Open(child, depth + 1)));
                }
                Fate::Dropped => {
                    self.foreign_objects += usize::from(name.name() == "foreignObject");
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, name: &str, node: Node<'_, '_>) {
        let is_root = node.parent_element().is_none();
        self.svg.push('<');
        self.svg.push_str(name);
        if is_root {
            self.attribute("xmlns", SVG);
            self.root(node);
        }
        let mut has_href = false;
        for attribute in node.attributes() {
            let value = attribute.value();
            match (attribute.namespace(), attribute.name()) {
                _ if is_href(&attribute) && !has_href && allowed::href(value) => {
                    has_href = true;
                    self.attribute("href", value);
                }
                // Said above, in units that an image has, too.
                (None, "width" | "height") if is_root => {}
                (None, "font-family") if self.font_for(value).is_some() => {
                    self.attribute("font-family", self.font_for(value).unwrap_or_default());
                }
                (None, "style") => {
                    let kept = css::declarations(value, is_root, self.canvas);
                    if !kept.is_empty() {
                        self.attribute("style", &kept);
                    }
                }
                (None, name) if allowed::attribute(name) && css::harmless(value) => {
                    self.attribute(name, value);
                }
                (Some(XML), "space") => self.attribute("xml:space", value),
                _ => {}
            }
        }
        self.svg.push('>');
    }

    /// How large the render is, so that a page need not guess, and how its text looks.
    fn root(&mut self, root: Node<'_, '_>) {
        let [_, _, width, height] = view(root);
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

    fn font_for(&self, named: &str) -> Option<&'static str> {
        css::font_for(named, self.canvas)
    }

    fn close(&mut self, name: &str) {
        // Nothing was written in between.
        if self.svg.ends_with('>') && self.is_still_open(name) {
            self.svg.pop();
            self.svg.push_str("/>");
        } else {
            self.svg.push_str("</");
            self.svg.push_str(name);
            self.svg.push('>');
        }
    }

    /// Whether the last thing that was written is the beginning of this element.
    fn is_still_open(&self, name: &str) -> bool {
        let last = self.svg.rfind('<').and_then(|start| self.svg.get(start + 1..));
        last.is_some_and(|tag| {
            !tag.ends_with("/>")
                && tag.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '>']))
        })
    }

    fn style(&mut self, node: Node<'_, '_>) {
        let text: String = node.children().filter_map(|child| child.text()).collect();
        let kept = css::stylesheet(&text, self.canvas);
        if !kept.is_empty() {
            self.svg.push_str("<style>");
            escape(&mut self.svg, &kept);
            self.svg.push_str("</style>");
        }
    }

    fn attribute(&mut self, name: &str, value: &str) {
        self.svg.push(' ');
        self.svg.push_str(name);
        self.svg.push_str("=\"");
        escape(&mut self.svg, value);
        self.svg.push('"');
    }

    /// Paints what is behind the diagram, as large as its view.
    fn background(&mut self, root: Node<'_, '_>) {
        let Some(background @ Background::Colour(_)) = self.canvas.background else { return };
        let [x, y, width, height] = view(root).map(|number| number.to_string());
        // As a style, since an attribute loses against whatever a stylesheet says of rectangles.
        let written = write!(
            self.svg,
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" style="fill:{background};stroke:none"/>"#
        );
        debug_assert!(written.is_ok(), "a string takes everything");
    }

    /// Whether it is what d2 rasterized behind its diagram, and something else is wanted there.
    fn is_old_canvas(&self, node: Node<'_, '_>) -> bool {
        self.canvas.background.is_some()
            && node.has_tag_name((SVG, "rect"))
            && node.prev_sibling_element().is_none()
            && node
                .parent_element()
                .and_then(|parent| parent.attribute("class"))
                .is_some_and(|classes| classes.split_whitespace().any(|class| class == D2_ROOT))
    }
}

/// Whether it is a reference, in the old way of writing it or in the new one.
fn is_href(attribute: &Attribute<'_, '_>) -> bool {
    attribute.name() == "href" && matches!(attribute.namespace(), None | Some(XLINK))
}

/// The `viewBox`, or what stands for it.
fn view(root: Node<'_, '_>) -> [f64; 4] {
    let numbers: Vec<f64> = root
        .attribute("viewBox")
        .unwrap_or_default()
        .split([' ', ','])
        .filter_map(|number| number.parse().ok())
        .filter(|number: &f64| number.is_finite())
        .collect();
    if let Ok(view) = numbers.try_into() {
        return view;
    }
    let length = |name| {
        let text = root.attribute(name).map(|text| text.trim_end_matches("px"));
        text.and_then(|text| text.parse().ok()).filter(|length: &f64| length.is_finite())
    };
    [0.0, 0.0, length("width").unwrap_or(0.0), length("height").unwrap_or(0.0)]
}

fn escape(svg: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '&' => svg.push_str("&amp;"),
            '<' => svg.push_str("&lt;"),
            '>' => svg.push_str("&gt;"),
            '"' => svg.push_str("&quot;"),
            // Else a reader makes a line end of it.
            '\r' => svg.push_str("&#13;"),
            letter => svg.push(letter),
        }
    }
}
