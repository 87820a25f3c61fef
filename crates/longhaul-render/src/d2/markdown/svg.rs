//! SVG of markdown labels.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use d2_little::fonts::{Font, FontFamily};
use roxmltree::{Document, Node};

use super::lay_out;
use super::layout::{Face, Item, LabelColour, LabelLayout, LabelStyle};
use crate::fonts::NO_KERNING;

/// Text size of a label that states none.
const DEFAULT_SIZE: f64 = 16.0;
const TOOLTIP: &str = "positioned-tooltip";
/// Part of the stylesheet for HTML, which is of no use without HTML.
const HTML_STYLES: &str = ".md blockquote";

/// Replaces the HTML of every markdown label in an SVG of d2.
pub(crate) fn draw(svg: &str, family: FontFamily) -> Result<String, String> {
    let document = Document::parse(svg).map_err(|error| error.to_string())?;
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    let mut fonts = UsedFonts { family, text: BTreeMap::new() };
    let mut fonts_at = None;
    for node in document.descendants().filter(Node::is_element) {
        // HTML of the source may contain any element.
        if edits.last().is_some_and(|(last, _)| node.range().start < last.end) {
            continue;
        }
        match node.tag_name().name() {
            "foreignObject" => {
                let id = fonts_at.get_or_insert_with(|| (edits.len(), diagram_id(node))).1.clone();
                edits.push((node.range(), label(node, &id, &mut fonts)?));
            }
            "style" if node.text().is_some_and(|css| css.contains(HTML_STYLES)) => {
                edits.push((node.range(), String::new()));
            }
            _ => {}
        }
    }
    if let Some((at, id)) = fonts_at
        && let Some((_, label)) = edits.get_mut(at)
    {
        label.insert_str(0, &fonts.stylesheet(&id));
    }
    let mut drawn = String::with_capacity(svg.len());
    let mut written = 0;
    for (range, text) in edits {
        drawn.push_str(svg.get(written..range.start).unwrap_or_default());
        drawn.push_str(&text);
        written = range.end;
    }
    drawn.push_str(svg.get(written..).unwrap_or_default());
    Ok(drawn)
}

/// Characters per font, so that exactly these are embedded.
struct UsedFonts {
    family: FontFamily,
    text: BTreeMap<Face, String>,
}

impl UsedFonts {
    fn stylesheet(&self, id: &str) -> String {
        let faces = self.text.iter().map(|(face, text)| {
            let (family, style) = face.font(self.family);
            let source = Font::new(family, style, 0).get_encoded_subset(text);
            let name = font_name(id, *face);
            format!(r#"@font-face{{font-family:{name};src:url("{source}");}}"#)
        });
        ["<style>", &faces.collect::<String>(), "</style>"].concat()
    }
}

/// Returns a separate font family for labels, because d2 embeds other characters than they need.
fn font_name(id: &str, face: Face) -> String {
    format!("{id}-md-{}", face.suffix())
}

/// Returns the id of a diagram, which is a class of the element around it.
fn diagram_id(node: Node<'_, '_>) -> String {
    let classes = node.ancestors().filter_map(|up| up.attribute("class"));
    let mut diagram = classes.filter(|classes| classes.split(' ').any(|class| class == "d2-svg"));
    let id = diagram.next().and_then(|classes| {
        classes.split(' ').find(|class| class.starts_with("d2-") && *class != "d2-svg")
    });
    id.unwrap_or("d2").to_owned()
}

/// Draws the content of a `foreignObject` in its place.
fn label(object: Node<'_, '_>, id: &str, fonts: &mut UsedFonts) -> Result<String, String> {
    let number = |name| {
        let value = object.attribute(name).and_then(|value| value.parse::<f64>().ok());
        value.filter(|value| value.is_finite()).unwrap_or(0.0)
    };
    let (x, y, width, height) = (number("x"), number("y"), number("width"), number("height"));
    let Some(html) = object.first_element_child() else { return Ok(String::new()) };
    let size =
        declaration(html, "font-size").and_then(|size| size.strip_suffix("px")?.parse().ok());
    let layout = lay_out(html, fonts.family, size.unwrap_or(DEFAULT_SIZE))?;
    let mut svg = String::new();
    let on_tooltip =
        object.parent_element().is_some_and(|up| up.attribute("class") == Some(TOOLTIP));
    if let Some(fill) = background(html) {
        write_all(
            &mut svg,
            format_args!(
                r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}"{fill}/>"#
            ),
        );
    }
    write_all(&mut svg, format_args!(r#"<g transform="translate({x:.2} {y:.2})"#));
    // d2 measures tooltips itself.
    let scale = (width / layout.width).min(height / layout.height);
    if scale < 1.0 {
        write_all(&mut svg, format_args!(" scale({scale:.4})"));
    }
    svg.extend(["\" style=\"", NO_KERNING, "\">"]);
    let text_paint = if on_tooltip { fill(on_white(LabelColour::Text)) } else { text_paint(html) };
    let mut writer = Writer { svg, id, text_paint, on_tooltip, fonts };
    writer.layout(layout);
    writer.svg.push_str("</g>");
    Ok(writer.svg)
}

/// Returns the value of a CSS property in an element's own style.
fn declaration<'a>(element: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let mut declarations = element.attribute("style").unwrap_or_default().split(';');
    declarations.find_map(|declaration| {
        let (property, value) = declaration.split_once(':')?;
        (property.trim() == name).then_some(value.trim())
    })
}

/// Returns the name of a theme colour, from a class such as `color-N1`.
fn theme_colour<'a>(element: Node<'a, '_>) -> Option<&'a str> {
    let mut classes = element.attribute("class").unwrap_or_default().split(' ');
    classes.find_map(|class| class.strip_prefix("color-"))
}

/// Returns the attribute that gives text its colour.
fn text_paint(html: Node<'_, '_>) -> String {
    match declaration(html, "color") {
        Some(colour) => fill(colour),
        None => {
            format!(r#" class="fill-{}""#, escaped(theme_colour(html).unwrap_or("N1")))
        }
    }
}

/// Returns the attribute for an explicit background. A gradient is no colour.
fn background(html: Node<'_, '_>) -> Option<String> {
    declaration(html, "background-color").filter(|colour| !colour.contains("gradient")).map(fill)
}

fn fill(colour: &str) -> String {
    format!(r#" fill="{}""#, escaped(colour))
}

/// Returns a colour for tooltips, whose background is white in every theme.
fn on_white(paint: LabelColour) -> &'static str {
    match paint {
        LabelColour::Text => "#0a0f25",
        LabelColour::MutedText => "#676c7e",
        LabelColour::Link | LabelColour::MutedBorder | LabelColour::Border => "#0d32b2",
        LabelColour::Subtle => "#eef1f8",
        LabelColour::Canvas => "#ffffff",
    }
}

struct Writer<'a> {
    svg: String,
    id: &'a str,
    /// Attribute for the colour of text.
    text_paint: String,
    on_tooltip: bool,
    fonts: &'a mut UsedFonts,
}

impl Writer<'_> {
    fn layout(&mut self, layout: LabelLayout) {
        for item in layout.items {
            match item {
                Item::Text { x, baseline, text, style, .. } => self.text(x, baseline, &text, style),
                Item::Box { x, y, width, height, radius, fill } => {
                    let (paint, width) = (self.paint(fill), width.resolve(x, layout.width));
                    write_all(
                        &mut self.svg,
                        format_args!(
                            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" rx="{radius}"{paint}/>"#
                        ),
                    );
                }
                Item::Circle { x, y, radius, filled: true } => {
                    let paint = self.paint(LabelColour::Text);
                    write_all(
                        &mut self.svg,
                        format_args!(r#"<circle cx="{x:.2}" cy="{y:.2}" r="{radius:.2}"{paint}/>"#),
                    );
                }
                Item::Circle { x, y, radius, filled: false } => {
                    let paint =
                        self.text_paint.replace(" fill=", " stroke=").replace("fill-", "stroke-");
                    write_all(
                        &mut self.svg,
                        format_args!(
                            r#"<circle cx="{x:.2}" cy="{y:.2}" r="{radius:.2}" fill="none" stroke-width="1"{paint}/>"#
                        ),
                    );
                }
            }
        }
    }

    fn text(&mut self, x: f64, baseline: f64, text: &str, style: LabelStyle) {
        let LabelStyle { face, size, paint, underline, strike, .. } = style;
        self.fonts.text.entry(face).or_default().push_str(text);
        let (font, paint) = (font_name(self.id, face), self.paint(paint));
        let generic = if face == Face::Mono { "monospace" } else { "sans-serif" };
        write_all(
            &mut self.svg,
            format_args!(
                r#"<text x="{x:.2}" y="{baseline:.2}" font-family="{font}, {generic}" font-size="{size}"{paint}"#
            ),
        );
        match (underline, strike) {
            (true, true) => self.svg.push_str(r#" text-decoration="underline line-through""#),
            (true, false) => self.svg.push_str(r#" text-decoration="underline""#),
            (false, true) => self.svg.push_str(r#" text-decoration="line-through""#),
            (false, false) => {}
        }
        // Code keeps its spaces.
        if face == Face::Mono {
            self.svg.push_str(r#" xml:space="preserve""#);
        }
        self.svg.extend([">", &escaped(text), "</text>"]);
    }

    fn paint(&self, paint: LabelColour) -> String {
        let class = match paint {
            _ if self.on_tooltip => return fill(on_white(paint)),
            LabelColour::Text => return self.text_paint.clone(),
            LabelColour::MutedText => "N2",
            LabelColour::Link | LabelColour::MutedBorder => "B2",
            LabelColour::Subtle => "N6",
            LabelColour::Canvas => "N7",
            LabelColour::Border => "B1",
        };
        format!(r#" class="fill-{class}""#)
    }
}

fn write_all(svg: &mut String, text: std::fmt::Arguments<'_>) {
    let written = svg.write_fmt(text);
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    crate::sanitize::escape(&mut escaped, text);
    escaped
}
