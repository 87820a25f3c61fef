//! CSS sanitizer: the output loads nothing.
//!
//! Comments are removed first, because they can split a word. A backslash can spell any character as a
//! number, so anything with one is dropped and every word is what it looks like. Of the rest, only rules
//! of a known shape are written, and values may call only functions that load nothing.

use std::borrow::Cow;

use super::Canvas;
use super::allowed::base64;

/// Functions that a value may call, besides `url` with a reference to the same document.
#[rustfmt::skip]
const FUNCTIONS: [&str; 21] = [
    "blur", "brightness", "calc", "cubic-bezier", "drop-shadow", "grayscale", "hsl", "hsla",
    "matrix", "max", "min", "opacity", "rgb", "rgba", "rotate", "saturate", "scale", "skewx",
    "skewy", "steps", "translate",
];
/// At-rules that contain rules. They may not be nested.
const GROUPS: [&str; 2] = ["@keyframes", "@media"];
const FONT_PREFIXES: [&str; 2] = ["data:application/font-woff;base64,", "data:font/woff2;base64,"];

const ROTATE: &str = "rotate(";

/// Returns the harmless rules of a stylesheet.
pub(super) fn stylesheet(text: &str, canvas: &Canvas) -> String {
    let text = without_comments(text);
    let mut kept = String::with_capacity(text.len());
    rules(&text, true, canvas, &mut kept);
    kept
}

/// Returns the harmless declarations of a rule. Those of the root element lose background and width, which
/// the sanitizer sets itself.
pub(super) fn declarations(text: &str, of_root: bool, canvas: &Canvas) -> String {
    let text = without_comments(text);
    let mut kept = String::with_capacity(text.len());
    for declaration in split(&text, ';') {
        let Some((name, value)) = declaration.split_once(':') else { continue };
        let (name, value) = (name.trim(), value.trim());
        let is_canvas = of_root && (name.starts_with("background") || name == "max-width");
        // Browsers ignore it, and resvg does not.
        let is_invalid = name == "stroke-width" && value.starts_with('-');
        let value = &*adjusted(name, value, canvas);
        if is_property(name)
            && !is_canvas
            && !is_invalid
            && !value.contains(['{', '}', '@'])
            && !value.is_empty()
            && is_balanced(value)
            && is_harmless(value)
        {
            kept.extend([name, ":", value, ";"]);
        }
    }
    kept
}

/// Returns true if a value loads nothing.
pub(super) fn is_harmless(value: &str) -> bool {
    if value.contains('\\') || value.contains("/*") {
        return false;
    }
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('(') {
        let name = before.rsplit(|letter: char| !is_word(letter)).next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        let known = match name.as_str() {
            // Parentheses without a function.
            "" => true,
            "url" => after.split_once(')').is_some_and(|(target, _)| is_internal(target)),
            name => {
                let family = name.trim_end_matches(['x', 'y', 'z']);
                FUNCTIONS.contains(&name) || FUNCTIONS.contains(&family)
            }
        };
        if !known {
            return false;
        }
        rest = after;
    }
    true
}

/// Returns true for a reference to an element of the document or an embedded font.
fn is_internal(target: &str) -> bool {
    let target = target.trim();
    let quoted = ['"', '\'']
        .into_iter()
        .find_map(|quote| target.strip_prefix(quote).and_then(|target| target.strip_suffix(quote)));
    let target = quoted.unwrap_or(target);
    match target.strip_prefix('#') {
        Some(id) => id.chars().all(is_word),
        None => {
            FONT_PREFIXES.into_iter().any(|start| target.strip_prefix(start).is_some_and(base64))
        }
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '-' || letter == '_' || letter == '.' || letter == ':'
}

fn is_property(name: &str) -> bool {
    let old = ["behavior", "-moz-binding"];
    !name.is_empty()
        && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-')
        && !old.iter().any(|old| name.eq_ignore_ascii_case(old))
}

/// Rewrites values that browsers and resvg read differently.
fn adjusted<'a>(name: &str, value: &'a str, canvas: &Canvas) -> Cow<'a, str> {
    match name {
        "font-family" => font_for(value, canvas).map_or(Cow::Borrowed(value), Cow::Borrowed),
        "transform" if !canvas.rasterized && value.contains(ROTATE) => {
            Cow::Owned(with_degrees(value))
        }
        // Multiplied with a dark background, the element would be invisible.
        "mix-blend-mode" if canvas.dark && value == "multiply" => Cow::Borrowed("screen"),
        _ => Cow::Borrowed(value),
    }
}

/// Returns the font that text was measured with, in place of a named one. Monospaced fonts stay.
pub(super) fn font_for(named: &str, canvas: &Canvas) -> Option<&'static str> {
    let even = ["mono", "courier"].iter().any(|even| named.to_ascii_lowercase().contains(even));
    canvas.text.filter(|_| !even).map(|text| text.font)
}

/// Adds the unit to angles, because only attributes may omit it.
fn with_degrees(value: &str) -> String {
    let mut turns = value.split(ROTATE);
    let mut written = turns.next().unwrap_or_default().to_owned();
    for turn in turns {
        let angle = turn.split([')', ',']).next().unwrap_or_default();
        let unit = if angle.trim().parse::<f64>().is_ok() { "deg" } else { "" };
        let rest = turn.strip_prefix(angle).unwrap_or_default();
        written.extend([ROTATE, angle, unit, rest]);
    }
    written
}

fn rules(text: &str, outermost: bool, canvas: &Canvas, kept: &mut String) {
    let mut rest = text;
    while let Some(rule) = next_rule(&mut rest) {
        let Rule { head, block: Some(block) } = rule else { continue };
        if !is_balanced(head) || head.contains(['\\', '<']) {
            continue;
        }
        let word = head.split([' ', '\t', '\n', '(']).next().unwrap_or_default();
        if GROUPS.contains(&word) {
            let mut inner = String::new();
            if outermost && is_harmless_head(head) {
                rules(block, false, canvas, &mut inner);
            }
            write(head, &inner, kept);
        } else if head == "@font-face" || !head.contains('@') {
            write(head, &declarations(block, false, canvas), kept);
        }
    }
}

/// Accepts words, numbers and parentheses.
fn is_harmless_head(head: &str) -> bool {
    head.chars().all(|letter| {
        letter.is_ascii_alphanumeric() || letter.is_whitespace() || "@-_:(),.%".contains(letter)
    })
}

fn write(head: &str, block: &str, kept: &mut String) {
    if !head.is_empty() && !block.is_empty() {
        kept.extend([head, "{", block, "}"]);
    }
}

struct Rule<'a> {
    head: &'a str,
    /// Content of the braces.
    block: Option<&'a str>,
}

/// Splits off the first rule. An unterminated rule ends the stylesheet.
fn next_rule<'a>(rest: &mut &'a str) -> Option<Rule<'a>> {
    let text = *rest;
    let (mut depth, mut quote, mut opened) = (0_usize, None, 0);
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open || letter == '\n' => quote = None,
            ('"' | '\'', None) => quote = Some(letter),
            (';', None) if depth == 0 => {
                *rest = text.get(at + 1..)?;
                return Some(Rule { head: text.get(..at)?.trim(), block: None });
            }
            ('{', None) => {
                if depth == 0 {
                    opened = at;
                }
                depth += 1;
            }
            ('}', None) if depth == 1 => {
                *rest = text.get(at + 1..)?;
                let block = Some(text.get(opened + 1..at)?);
                return Some(Rule { head: text.get(..opened)?.trim(), block });
            }
            // Unbalanced: viewers may disagree about everything that follows.
            ('}', None) if depth == 0 => return None,
            ('}', None) => depth -= 1,
            (_, Some(_) | None) => {}
        }
    }
    None
}

/// Splits at separators outside of quotes and parentheses.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quote, mut depth) = (None, 0_usize);
    text.split(move |letter| {
        match (letter, quote) {
            (letter, Some(open)) if letter == open || letter == '\n' => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(letter),
            ('(', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            (letter, None) => return letter == separator && depth == 0,
        }
        false
    })
}

/// Returns true if quotes and brackets are closed, quotes within their line.
fn is_balanced(text: &str) -> bool {
    let mut quote = None;
    let mut open = Vec::new();
    for letter in text.chars() {
        match (letter, quote) {
            ('\n', Some(_)) => return false,
            (letter, Some(begun)) if letter == begun => quote = None,
            ('"' | '\'', None) => quote = Some(letter),
            ('(', None) => open.push(')'),
            ('[', None) => open.push(']'),
            (')' | ']', None) if open.pop() != Some(letter) => return false,
            (_, Some(_) | None) => {}
        }
    }
    quote.is_none() && open.is_empty()
}

/// Replaces comments by spaces. An unterminated comment ends the text.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        kept.push(' ');
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sanitize::TextStyle;

    #[test]
    fn css_rules_of_diagrams_are_kept() {
        for kept in [
            "#diagram .node rect{fill:#ececff;stroke:rgb(1, 2, 3);}",
            "#diagram [id$=\"-barb\"]{stroke:#333;}",
            ".a>.b:not(.c){marker-end:url(#arrow);}",
            ".d2 .text{font-family:\"d2-font-regular\";}",
            "@font-face{font-family:x;src:url(\"data:application/font-woff;base64,AAAA\");}",
            "@media screen and (prefers-color-scheme:dark){.a{fill:#000;}}",
            "@keyframes dash{from{stroke-dashoffset:0;}to{stroke-dashoffset:-10;}}",
        ] {
            assert_eq!(stylesheet(kept, &Canvas::default()), kept);
        }
    }

    #[test]
    fn css_that_loads_is_dropped() {
        for bad in [
            "@import url(http://x.example/a.css);",
            "@import 'http://x.example/a.css';",
            ".a{background:url(http://x.example/)}",
            ".a{background:URL( 'http://x.example/' )}",
            ".a{background:u\\72l(http://x.example/)}",
            ".a{background:image-set(\"http://x.example/\" 1x)}",
            ".a{background:-webkit-image-set(\"http://x.example/\" 1x)}",
            ".a{src:src(\"http://x.example/\")}",
            ".a{background:url(/**/http://x.example/)}",
            ".a{behavior:x}",
            "@font-face{src:url(http://x.example/a.woff)}",
            "@namespace x url(http://x.example/);",
            "@media print{@import 'x';}",
            "@media print{@media print{.a{fill:red}}}",
            ".a{fill:url(#a",
            "@charset \"x\";",
        ] {
            assert_eq!(stylesheet(bad, &Canvas::default()), "", "{bad}");
        }
    }

    #[test]
    fn css_that_viewers_read_differently_is_adjusted() {
        let text = Some(TextStyle { font: "Ours", colour: "#333" });
        let shown = Canvas { text, ..Canvas::default() };
        let rasterized = Canvas { rasterized: true, ..shown };
        let turned = "transform:rotate(-4.5) scale(.8) rotate(1rad);";
        let with_unit = "transform:rotate(-4.5deg) scale(.8) rotate(1rad);";
        assert_eq!(declarations(turned, false, &shown), with_unit);
        assert_eq!(declarations(turned, false, &rasterized), turned);
        assert_eq!(declarations("stroke-width:-4", false, &shown), "");
        let blended = "mix-blend-mode:multiply;";
        assert_eq!(declarations(blended, false, &shown), blended);
        let dark = Canvas { dark: true, ..shown };
        assert_eq!(declarations(blended, false, &dark), "mix-blend-mode:screen;");
        let fonts = "font-family:\"trebuchet ms\",verdana;";
        assert_eq!(declarations(fonts, false, &shown), "font-family:Ours;");
        assert_eq!(declarations(fonts, false, &Canvas::default()), fonts);
        let even = "font-family:Courier New,monospace;";
        assert_eq!(declarations(even, false, &shown), even);
    }

    #[test]
    fn css_after_a_dropped_rule_is_kept() {
        let of = |text, of_root| declarations(text, of_root, &Canvas::default());
        assert_eq!(
            stylesheet("@import 'x'; .a{fill:red} }.b{}", &Canvas::default()),
            ".a{fill:red;}"
        );
        assert_eq!(of("fill:red;x:url(//x);stroke:blue", false), "fill:red;stroke:blue;");
        assert_eq!(of("max-width: 9px; background-color: white; color: red", true), "color:red;");
    }
}
