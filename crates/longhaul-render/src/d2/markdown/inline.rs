//! Lines of text: emphasis, code and line breaks.

use roxmltree::Node;

use super::layout::{Face, LabelColour, LabelLayout, LabelStyle, Width};

/// Size of code, in units of the text around it.
const CODE_EM: f64 = 0.85;
/// Horizontal and vertical padding of inline code, in units of its size.
const CODE_PADDING_EM: (f64, f64) = (0.4, 0.2);
pub(super) const CODE_RADIUS: f64 = 6.0;

/// Text that is collected before it is laid out. Consecutive words of one style are one run.
#[derive(Debug, Default)]
pub(super) struct Paragraph {
    lines: Vec<Vec<Run>>,
    /// White space between the last word and the next.
    space: bool,
    /// A break ends a line. Only text or another break begins the next one.
    broken: bool,
    /// Runs of different code elements are not joined.
    code_elements: usize,
}

#[derive(Debug)]
struct Run {
    text: String,
    style: LabelStyle,
    /// Number of the code element, because it has its own background.
    code: Option<usize>,
    space_before: bool,
}

impl Paragraph {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds an inline node with its descendants.
    pub(super) fn add(&mut self, node: Node<'_, '_>, style: LabelStyle, code: Option<usize>) {
        if let Some(text) = node.text().filter(|_| node.is_text()) {
            return self.add_text(text, style, code);
        }
        let mut inner = style;
        let mut code = code;
        match node.tag_name().name() {
            "br" => return self.add_break(),
            "img" => return self.add_text(node.attribute("alt").unwrap_or_default(), style, code),
            // Bold wins, because there is no font that is both.
            "em" | "i" | "dfn" | "cite" | "var"
                if matches!(style.face, Face::Regular | Face::Semibold) =>
            {
                inner.face = Face::Italic;
            }
            "strong" | "b" if style.face != Face::Mono => inner.face = Face::Bold,
            "code" | "kbd" | "samp" | "tt" if code.is_none() => {
                inner.face = Face::Mono;
                inner.size *= CODE_EM;
                self.code_elements += 1;
                code = Some(self.code_elements);
            }
            "del" | "s" | "strike" => inner.strike = true,
            "ins" | "u" => inner.underline = true,
            "a" => inner.paint = LabelColour::Link,
            name if is_dropped(name) => return,
            _ => {}
        }
        for child in node.children() {
            self.add(child, inner, code);
        }
    }

    fn add_break(&mut self) {
        if self.broken || self.lines.is_empty() {
            self.lines.push(Vec::new());
        }
        (self.broken, self.space) = (true, false);
    }

    /// Adds text, with white space collapsed.
    fn add_text(&mut self, text: &str, style: LabelStyle, code: Option<usize>) {
        let is_space = |letter: char| letter.is_ascii_whitespace();
        for (number, word) in text.split(is_space).enumerate() {
            self.space |= number > 0;
            if !word.is_empty() {
                self.add_word(word, style, code);
            }
        }
    }

    fn add_word(&mut self, word: &str, style: LabelStyle, code: Option<usize>) {
        if std::mem::take(&mut self.broken) || self.lines.is_empty() {
            self.lines.push(Vec::new());
        }
        let Some(line) = self.lines.last_mut() else { return };
        let space_before = std::mem::take(&mut self.space) && !line.is_empty();
        match line.last_mut().filter(|last| last.style == style && last.code == code) {
            Some(last) => {
                last.text.extend(space_before.then_some(' '));
                last.text.push_str(word);
            }
            None => line.push(Run { text: word.to_owned(), style, code, space_before }),
        }
    }

    /// Writes the lines and returns their height.
    pub(super) fn write(
        self,
        layout: &mut LabelLayout,
        (x, y): (f64, f64),
        style: LabelStyle,
        line_height: f64,
    ) -> f64 {
        let mut top = y;
        for line in self.lines {
            write_line(layout, line, x, top, style, line_height);
            top += line_height;
        }
        top - y
    }
}

fn write_line(
    layout: &mut LabelLayout,
    line: Vec<Run>,
    x: f64,
    top: f64,
    style: LabelStyle,
    line_height: f64,
) {
    let baseline = top + style.baseline(line_height);
    let mut pen = x;
    for run in line {
        if run.space_before {
            pen += LabelStyle { face: Face::Regular, ..style }.width(" ");
        }
        let (padding, above) = match run.code {
            Some(_) => (CODE_PADDING_EM.0 * run.style.size, CODE_PADDING_EM.1 * run.style.size),
            None => (0.0, 0.0),
        };
        pen += padding;
        if run.code.is_some() {
            let height = run.style.size * 1.25;
            let box_top = baseline - run.style.baseline(height) - above;
            let width = Width::Fixed(run.style.width(&run.text) + 2.0 * padding);
            let size = (width, height + 2.0 * above);
            layout.fill(pen - padding, box_top, size, CODE_RADIUS, LabelColour::Subtle);
        }
        pen += layout.text(pen, baseline, run.text, run.style) + padding;
    }
    layout.widen(pen);
}

/// Returns true for elements whose content is no text.
pub(super) fn is_dropped(name: &str) -> bool {
    matches!(
        name,
        "script" | "style" | "head" | "title" | "template" | "iframe" | "object" | "svg" | "math"
    )
}
