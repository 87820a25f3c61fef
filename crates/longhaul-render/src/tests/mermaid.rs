//! Gallery samples: every diagram type of mermaid's documentation, and some of d2.

use std::path::Path;

use serde::Deserialize;

use super::{svg, text_of};
use crate::{ErrorCode, Format};

/// Entry of `docs/diagrams/index.json`.
#[derive(Deserialize)]
struct Sample {
    file: String,
    labels: Vec<String>,
    /// Part of the error message of an unsupported sample.
    refused: Option<String>,
}

#[test]
fn every_gallery_sample_contains_its_labels() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagrams");
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let samples: Vec<Sample> = serde_json::from_str(&read("index.json")).unwrap();
    assert!(samples.len() > 30, "{}", samples.len());
    for Sample { file, labels, refused } in samples {
        let is_d2 = Path::new(&file).extension().is_some_and(|ending| ending == "d2");
        let format = if is_d2 { Format::D2 } else { Format::Mermaid };
        let drawn = match (svg(format, &read(&file)), refused) {
            (Ok(drawn), None) => drawn,
            (Err(error), Some(expected)) => {
                assert_eq!(error.code, ErrorCode::Unsupported, "{file}: {error}");
                assert!(error.message.contains(&expected), "{file}: {error}");
                continue;
            }
            (drawn, _) => panic!("{file}: {drawn:?}"),
        };
        let text = text_of(&drawn);
        for label in labels {
            let label: String = label.split_whitespace().collect();
            assert!(text.contains(&label), "{file}: {label} is not in {text}");
        }
    }
}

#[test]
fn unknown_diagram_type_is_unsupported() {
    for source in ["hologramDiagram\n  a b", "no diagram at all", "%% only\nsomething"] {
        let error = svg(Format::Mermaid, source).unwrap_err();
        assert_eq!(error.code, ErrorCode::Unsupported, "{error}");
    }
    let error = svg(Format::Mermaid, " \n").unwrap_err();
    assert_eq!(error.code, ErrorCode::Syntax, "{error}");
}

#[test]
fn large_flowchart_is_drawn() {
    let edges: Vec<_> = (0..300).map(|n| format!("n{n}[Node {n}] --> n{}", n + 1)).collect();
    let edges = edges.join("\n");
    let text = text_of(&svg(Format::Mermaid, &format!("flowchart TD\n{edges}")).unwrap());
    assert!(text.contains("Node0") && text.contains("Node299"));
}

#[test]
fn clickable_node_loses_its_link_and_keeps_its_position() {
    let source = "flowchart LR\n  a[One] --> b[Two]\n  click a \"https://example.com\" \"tip\"\n";
    let drawn = svg(Format::Mermaid, source).unwrap();
    let one = drawn.find(">One<").unwrap();
    let node = drawn.get(..one).and_then(|before| before.rfind("class=\"node")).unwrap();
    let group = drawn.get(..node).and_then(|before| before.rfind("<g")).unwrap();
    let group = drawn.get(group..one).unwrap();
    assert!(group.contains("transform=\"translate("), "{group}");
    assert!(!drawn.contains("example.com"));
}
