//! Positions, fonts and texts of markdown labels.

use d2_little::fonts::FontFamily;
use d2_little::textmeasure::render_markdown;
use roxmltree::Document;

use super::layout::{Face, Item, LabelColour, LabelLayout, Width};
use super::{TOO_DEEP, lay_out, measure};

const SIZE: f64 = 16.0;

const EVERYTHING: &str = "# Heading with `code`
Text with **bold**, *italic*, ***both***, ~~no~~, `code` and [a link](https://example.com).\\
Second line

1. one
   - nested
     - deeper
       - deepest
2. two

   paragraph of two
   1. sub
      1. subsub

> quote with **bold**
> > nested quote
> - list in quote

```go
func main() {
\tfmt.Println(\"hi\")
}
```

| left | centre | right |
|:-----|:------:|------:|
| a **bold** b | `c` | d |
| long cell with some text | x<br/>y | z |

---

###### Small heading
- ```
  code in item
  ```
-
- - two markers
";

fn layout_of(text: &str) -> LabelLayout {
    let html = format!("<body>{}</body>", render_markdown(text).unwrap());
    let document = Document::parse(&html).unwrap();
    lay_out(document.root_element(), FontFamily::SourceSansPro, SIZE).unwrap()
}

/// Returns the texts with their face, from top to bottom.
fn texts(layout: &LabelLayout) -> Vec<(&str, Face)> {
    let text = |item| match item {
        &Item::Text { ref text, style, .. } => Some((text.as_str(), style.face)),
        Item::Box { .. } | Item::Circle { .. } => None,
    };
    layout.items.iter().filter_map(text).collect()
}

/// Returns left, top, right and bottom of an item.
fn bounds(item: &Item, layout: &LabelLayout) -> [f64; 4] {
    match item {
        Item::Text { x, baseline, width, style, .. } => {
            [*x, baseline - 0.75 * style.size, x + width, baseline + 0.25 * style.size]
        }
        Item::Box { x, y, width, height, .. } => {
            [*x, *y, x + width.resolve(*x, layout.width), y + height]
        }
        Item::Circle { x, y, radius, .. } => [x - radius, y - radius, x + radius, y + radius],
    }
}

#[test]
fn markdown_items_are_inside_of_the_label() {
    for text in [EVERYTHING, "# h", "`c`", "> q", "- a", "---", "    code", "100. x\n1000000. y"] {
        let layout = layout_of(text);
        assert!(!layout.items.is_empty(), "{text}");
        for item in &layout.items {
            let [left, top, right, bottom] = bounds(item, &layout);
            let inside = left >= -0.01 && right <= layout.width + 0.01;
            assert!(inside && top >= -2.0 && bottom <= layout.height + 2.0, "{item:?} of {text}");
        }
    }
}

#[test]
fn markdown_texts_do_not_overlap() {
    let layout = layout_of(EVERYTHING);
    let texts: Vec<_> =
        layout.items.iter().filter(|item| matches!(item, Item::Text { .. })).collect();
    for (number, one) in texts.iter().enumerate() {
        let [left, top, right, bottom] = bounds(one, &layout);
        for other in texts.iter().skip(number + 1) {
            let other_bounds = bounds(other, &layout);
            let beside = right <= other_bounds[0] + 0.01 || other_bounds[2] <= left + 0.01;
            let below = bottom <= other_bounds[1] || other_bounds[3] <= top;
            assert!(beside || below, "{one:?} and {other:?}");
        }
    }
}

#[test]
fn markdown_emphasis_chooses_the_font() {
    let layout = layout_of("a **b** *c* ***d*** `e`");
    let expected = [
        ("a", Face::Regular),
        ("b", Face::Bold),
        ("c", Face::Italic),
        ("d", Face::Bold),
        ("e", Face::Mono),
    ];
    assert_eq!(texts(&layout), expected);
    assert_eq!(texts(&layout_of("# one *two*")), [("one", Face::Semibold), ("two", Face::Italic)]);
}

#[test]
fn markdown_words_of_one_style_are_one_text() {
    assert_eq!(texts(&layout_of("one  two\nthree")), [("one two three", Face::Regular)]);
    let lines = layout_of("one\\\ntwo<br/>three");
    assert_eq!(texts(&lines).len(), 3);
    assert!((lines.height - 3.0 * 1.5 * SIZE).abs() < 1e-9, "{}", lines.height);
}

#[test]
fn markdown_break_at_the_end_of_a_paragraph_is_no_line() {
    assert!((layout_of("a<br/>").height - layout_of("a").height).abs() < 1e-9);
    let empty_line = layout_of("a<br/><br/>b").height - layout_of("a<br/>b").height;
    assert!((empty_line - 1.5 * SIZE).abs() < 1e-9, "{empty_line}");
}

#[test]
fn markdown_lists_have_markers_by_depth() {
    let layout = layout_of("1. a\n   1. b\n      1. c\n1. d");
    let shown: Vec<_> = texts(&layout).into_iter().map(|(text, _)| text).collect();
    assert_eq!(shown, ["1.", "a", "i.", "b", "a.", "c", "2.", "d"]);
    let bullets = layout_of("- a\n  - b\n    - c");
    let filled: Vec<_> = bullets
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Circle { filled, .. } => Some(Some(*filled)),
            Item::Box { .. } => Some(None),
            Item::Text { .. } => None,
        })
        .collect();
    assert_eq!(filled, [Some(true), Some(false), None]);
}

#[test]
fn markdown_code_keeps_its_spaces() {
    let layout = layout_of("```\na\n\tb  c\n  d\n```");
    assert_eq!(texts(&layout), ["a", "    b  c", "  d"].map(|line| (line, Face::Mono)));
}

#[test]
fn markdown_table_cells_are_aligned() {
    let layout = layout_of("| a | b |\n|:--|--:|\n| wide cell | wide cell |\n| l | r |");
    let position = |wanted: &str| {
        layout.items.iter().find_map(|item| match item {
            Item::Text { text, x, width, .. } if text == wanted => Some((*x, x + width)),
            Item::Text { .. } | Item::Box { .. } | Item::Circle { .. } => None,
        })
    };
    let (left, right) = (position("l").unwrap(), position("r").unwrap());
    assert!((left.0 - 14.0).abs() < 0.01, "{left:?}");
    assert!((layout.width - right.1 - 14.0).abs() < 0.01, "{right:?} of {}", layout.width);
}

#[test]
fn markdown_html_is_text_or_dropped() {
    let shown = |text| {
        let layout = layout_of(text);
        texts(&layout).into_iter().map(|(text, _)| text.to_owned()).collect::<Vec<_>>().join("|")
    };
    assert_eq!(shown("a <script>alert(1)</script> <style>x{}</style>b"), "a b");
    assert_eq!(shown("<div onclick='x()'><b>bold</b> <blink>text</blink></div>"), "bold|text");
    assert_eq!(shown("<iframe src='//x.example'>no</iframe>ok <!-- gone -->"), "ok");
    assert_eq!(shown("![picture](https://x.example/a.png)"), "picture");
    assert_eq!(shown("&lt;script&gt; &copy;"), "<script> ©");
}

#[test]
fn markdown_links_keep_only_their_text() {
    let layout = layout_of("[text](javascript:alert(1))");
    let is_link =
        |item: &Item| matches!(item, Item::Text { style, .. } if style.paint == LabelColour::Link);
    assert!(layout.items.iter().any(is_link), "{layout:?}");
    assert_eq!(texts(&layout), [("text", Face::Regular)]);
}

#[test]
fn markdown_rule_spans_the_label() {
    let layout = layout_of("some text that is wide\n\n---");
    let full = |item: &Item| matches!(item, Item::Box { width: Width::Full { inset }, .. } if *inset == 0.0);
    assert!(layout.items.iter().any(full), "{layout:?}");
    assert!((layout.width - layout_of("some text that is wide").width).abs() < 1e-9);
}

#[test]
fn deeply_nested_markdown_is_rejected() {
    let family = FontFamily::SourceSansPro;
    for deep in ["> ".repeat(300), format!("{}x{}", "<b>".repeat(200), "</b>".repeat(200))] {
        assert_eq!(measure(&deep, family, SIZE).unwrap_err(), TOO_DEEP);
    }
    assert!(measure(&format!("{}x", "> ".repeat(40)), family, SIZE).is_ok());
}

#[test]
fn markdown_without_text_has_a_size() {
    for text in ["", " ", "<script>x</script>", "<!-- x -->"] {
        let (width, height) = measure(text, FontFamily::SourceSansPro, SIZE).unwrap();
        assert!(width.abs() < f64::EPSILON && height.abs() < f64::EPSILON, "{text}");
    }
}
