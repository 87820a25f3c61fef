//! Blocks of a label, from top to bottom. Sizes and margins are those of d2's stylesheet.

use d2_little::fonts::FontFamily;
use roxmltree::Node;

use super::inline::{self, CODE_RADIUS, Paragraph};
use super::layout::{Face, LabelColour, LabelLayout, LabelStyle, Width};
use super::list_marker::ListMarker;
use super::table;

const LINE_HEIGHT: f64 = 1.5;
const MARGIN: f64 = 16.0;
const HEADING_MARGIN: f64 = 24.0;
const HEADING_LINE_HEIGHT: f64 = 1.25;
/// Space between a heading and the line below it.
const HEADING_PADDING_EM: f64 = 0.3;
const RULE_MARGIN: f64 = 24.0;
const RULE_EM: f64 = 0.25;
/// Width of a label that contains only a rule.
const RULE_WIDTH_EM: f64 = 4.0;
const ITEM_MARGIN_EM: f64 = 0.25;
const ITEM_INDENT_EM: f64 = 2.0;
const QUOTE_BAR_EM: f64 = 0.25;
const QUOTE_PADDING_EM: f64 = 1.0;
const CODE_PADDING: f64 = 16.0;
const CODE_LINE_HEIGHT: f64 = 1.45;
const CODE_EM: f64 = 0.85;
const TAB_COLUMNS: usize = 4;

/// Lays out the content of an HTML element.
pub(super) fn lay_out(element: Node<'_, '_>, family: FontFamily, size: f64) -> LabelLayout {
    let style = LabelStyle {
        family,
        face: Face::Regular,
        size,
        paint: LabelColour::Text,
        underline: false,
        strike: false,
    };
    lay_out_part(element, style)
}

/// Lays out a part whose position is not known yet, for example a cell of a table.
pub(super) fn lay_out_part(element: Node<'_, '_>, style: LabelStyle) -> LabelLayout {
    let mut blocks = Blocks::default();
    blocks.children(element, Context { x: 0.0, inset: 0.0, style, line: LINE_HEIGHT, lists: 0 });
    // The last margin is outside of the label.
    LabelLayout { height: blocks.y, ..blocks.layout }
}

/// Properties that blocks inherit from the blocks around them.
#[derive(Debug, Clone, Copy)]
struct Context {
    x: f64,
    /// Distance to the right edge of the label.
    inset: f64,
    style: LabelStyle,
    /// Line height in units of the text size.
    line: f64,
    /// Lists around the block.
    lists: usize,
}

#[derive(Debug, Default)]
struct Blocks {
    layout: LabelLayout,
    y: f64,
    /// Margin below the last block. The larger one of two adjacent margins counts.
    margin: f64,
    /// Set by the first block. The margin above it does not count.
    started: bool,
    /// Markers of list items whose first line is not written yet.
    markers: Vec<(ListMarker, f64, LabelStyle)>,
}

impl Blocks {
    fn children(&mut self, element: Node<'_, '_>, context: Context) {
        let mut paragraph = Paragraph::default();
        for child in element.children() {
            if child.is_element() && is_block(child.tag_name().name()) {
                self.paragraph(std::mem::take(&mut paragraph), context);
                self.block(child, context);
            } else {
                paragraph.add(child, context.style, None);
            }
        }
        self.paragraph(paragraph, context);
    }

    fn paragraph(&mut self, paragraph: Paragraph, context: Context) {
        if paragraph.is_empty() {
            return;
        }
        let Context { x, style, line, .. } = context;
        let top = self.start(context);
        self.y += paragraph.write(&mut self.layout, (x, top), style, line * style.size);
    }

    fn block(&mut self, element: Node<'_, '_>, context: Context) {
        let name = element.tag_name().name();
        match name {
            "p" => {
                let in_item = element.parent_element().is_some_and(|up| up.has_tag_name("li"));
                self.add_margin(if in_item { MARGIN } else { 0.0 });
                self.children(element, context);
                self.add_margin(MARGIN);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.heading(element, context),
            "ul" | "ol" => self.list(element, context),
            "blockquote" => self.quote(element, context),
            "pre" => self.code(element, context),
            "hr" => {
                self.add_margin(RULE_MARGIN);
                let (top, height) = (self.start(context), RULE_EM * context.style.size);
                let width = Width::Full { inset: context.inset };
                self.layout.fill(context.x, top, (width, height), 0.0, LabelColour::Border);
                self.layout.widen(context.x + RULE_WIDTH_EM * context.style.size + context.inset);
                self.y += height;
                self.add_margin(RULE_MARGIN);
            }
            "table" => {
                let part = table::lay_out(element, context.style, context.line);
                let top = self.start(context);
                self.y += part.height;
                self.layout.widen(context.x + part.width);
                self.layout.insert(part, context.x, top);
                self.add_margin(MARGIN);
            }
            _ => self.children(element, context),
        }
    }

    fn add_margin(&mut self, margin: f64) {
        self.margin = self.margin.max(margin);
    }

    /// Begins a block: returns its top and writes the markers of the items that begin with it.
    fn start(&mut self, context: Context) -> f64 {
        let margin = std::mem::take(&mut self.margin);
        if std::mem::replace(&mut self.started, true) {
            self.y += margin;
        }
        let baseline = self.y + context.style.baseline(context.line * context.style.size);
        for (marker, x, style) in std::mem::take(&mut self.markers) {
            marker.write(&mut self.layout, x, baseline, style);
        }
        self.y
    }

    fn heading(&mut self, element: Node<'_, '_>, context: Context) {
        let (ems, underlined) = match element.tag_name().name() {
            "h1" => (2.0, true),
            "h2" => (1.5, true),
            "h3" => (1.25, false),
            "h5" => (0.875, false),
            "h6" => (0.85, false),
            _ => (1.0, false),
        };
        let mut style =
            LabelStyle { face: Face::Semibold, size: context.style.size * ems, ..context.style };
        if element.has_tag_name("h6") {
            style.paint = LabelColour::MutedText;
        }
        self.add_margin(HEADING_MARGIN);
        self.children(element, Context { style, line: HEADING_LINE_HEIGHT, ..context });
        if underlined {
            self.y += HEADING_PADDING_EM * style.size;
            let width = Width::Full { inset: context.inset };
            self.layout.fill(context.x, self.y, (width, 1.0), 0.0, LabelColour::MutedBorder);
            self.y += 1.0;
        }
        self.add_margin(MARGIN);
    }

    fn list(&mut self, element: Node<'_, '_>, context: Context) {
        let Context { x, style, lists, .. } = context;
        let marker_style = LabelStyle { face: Face::Regular, ..style };
        let items = || element.children().filter(|child| child.has_tag_name("li"));
        let first: u32 =
            element.attribute("start").and_then(|start| start.parse().ok()).unwrap_or(1);
        let is_ordered = element.has_tag_name("ol");
        let marker = |index: u32| {
            if is_ordered {
                ListMarker::number(first.saturating_add(index), lists)
            } else {
                ListMarker::bullet(lists)
            }
        };
        let markers: Vec<_> = (0..).zip(items()).map(|(index, _)| marker(index)).collect();
        let widths = markers.iter().map(|marker| marker.width(marker_style));
        let indent = widths.fold(ITEM_INDENT_EM * style.size, f64::max);
        let inner = Context { x: x + indent, lists: lists + 1, ..context };
        for (number, (marker, item)) in markers.into_iter().zip(items()).enumerate() {
            if number > 0 {
                self.add_margin(ITEM_MARGIN_EM * style.size);
            }
            let pending = self.markers.len();
            self.markers.push((marker, inner.x, marker_style));
            self.children(item, inner);
            // An empty item has a line, too.
            if self.markers.len() > pending {
                self.start(inner);
                self.layout.widen(inner.x);
                self.y += inner.line * style.size;
            }
        }
        if lists == 0 {
            self.add_margin(MARGIN);
        }
    }

    fn quote(&mut self, element: Node<'_, '_>, context: Context) {
        let Context { x, style, .. } = context;
        let (bar, padding) = (QUOTE_BAR_EM * style.size, QUOTE_PADDING_EM * style.size);
        let top = self.start(context);
        let outer_width = std::mem::take(&mut self.layout.width);
        // Margins at both ends of a quote are inside of its bar, and dropped.
        self.started = false;
        self.children(
            element,
            Context {
                x: x + bar + padding,
                inset: context.inset + padding,
                style: LabelStyle { paint: LabelColour::MutedText, ..style },
                ..context
            },
        );
        (self.started, self.margin) = (true, 0.0);
        self.layout.fill(x, top, (Width::Fixed(bar), self.y - top), 0.0, LabelColour::Border);
        self.layout.width = outer_width.max(self.layout.width + padding);
        self.add_margin(MARGIN);
    }

    fn code(&mut self, element: Node<'_, '_>, context: Context) {
        let style =
            LabelStyle { face: Face::Mono, size: context.style.size * CODE_EM, ..context.style };
        let texts = element.descendants().filter(Node::is_text).filter_map(|node| node.text());
        let text: String = texts.collect();
        let lines: Vec<_> = text.strip_suffix('\n').unwrap_or(&text).split('\n').collect();
        let line_height = CODE_LINE_HEIGHT * style.size;
        let top = self.start(context);
        let width = Width::Full { inset: context.inset };
        #[expect(clippy::cast_precision_loss, reason = "a label has few lines")]
        let height = lines.len() as f64 * line_height + 2.0 * CODE_PADDING;
        self.layout.fill(context.x, top, (width, height), CODE_RADIUS, LabelColour::Subtle);
        let x = context.x + CODE_PADDING;
        let mut line_top = top + CODE_PADDING;
        for line in lines {
            let line = with_tabs_expanded(line.trim_end());
            if !line.is_empty() {
                let baseline = line_top + style.baseline(line_height);
                let width = self.layout.text(x, baseline, line, style);
                self.layout.widen(x + width + CODE_PADDING);
            }
            line_top += line_height;
        }
        self.layout.widen(x + CODE_PADDING);
        self.y += height;
        self.add_margin(MARGIN);
    }
}

fn with_tabs_expanded(line: &str) -> String {
    let mut expanded = String::with_capacity(line.len());
    let mut column = 0;
    for letter in line.chars() {
        let columns = if letter == '\t' { TAB_COLUMNS - column % TAB_COLUMNS } else { 1 };
        column += columns;
        match letter {
            '\t' => expanded.extend(std::iter::repeat_n(' ', columns)),
            letter => expanded.push(letter),
        }
    }
    expanded
}

/// Returns true for elements that begin a new line.
fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "body"
            | "center"
            | "dd"
            | "details"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hr"
            | "li"
            | "main"
            | "nav"
            | "ol"
            | "p"
            | "pre"
            | "section"
            | "summary"
            | "table"
            | "tbody"
            | "td"
            | "tfoot"
            | "th"
            | "thead"
            | "tr"
            | "ul"
    ) && !inline::is_dropped(name)
}
