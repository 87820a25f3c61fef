//! A diagram of each type that mermaid's documentation has.

use super::super::{Code, Format};
use super::{svg, text_of};

/// A type, a source, and labels of it.
const TYPES: &[(&str, &str, &[&str])] = &[
    (
        "flowchart",
        "flowchart TD\n  A[Christmas] -->|Get money| B(Go shopping)\n  B --> C{Let me think}\n  C -->|One| D[Laptop]",
        &["Christmas", "Getmoney", "Goshopping", "Letmethink", "Laptop"],
    ),
    (
        "graph",
        "graph LR\n  subgraph Group\n    A((Round)) -.-> B[/Slanted/]\n  end",
        &["Group", "Round", "Slanted"],
    ),
    (
        "sequence",
        "sequenceDiagram\n  participant A as Alice\n  A->>Bob: Hello Bob\n  Bob-->>A: Great\n  Note over A,Bob: A note\n  loop Daily\n    A->>Bob: Again\n  end",
        &["Alice", "HelloBob", "Great", "Anote", "Daily"],
    ),
    (
        "class",
        "classDiagram\n  Animal <|-- Duck\n  class Duck {\n    +String beak\n    +swim()\n  }",
        &["Animal", "Duck", "beak", "swim()"],
    ),
    (
        "state",
        "stateDiagram-v2\n  [*] --> Still\n  Still --> Moving : push\n  state Moving {\n    Slow --> Fast\n  }",
        &["Still", "Moving", "push", "Slow", "Fast"],
    ),
    (
        "er",
        "erDiagram\n  CUSTOMER ||--o{ ORDER : places\n  CUSTOMER {\n    string name PK\n  }",
        &["CUSTOMER", "ORDER", "places", "name"],
    ),
    (
        "gantt",
        "gantt\n  title Plan\n  dateFormat YYYY-MM-DD\n  section Build\n  Foundation :a1, 2024-01-01, 30d\n  Walls :after a1, 20d",
        &["Plan", "Build", "Foundation", "Walls"],
    ),
    ("pie", "pie title Pets\n  \"Dogs\" : 386\n  \"Cats\" : 85", &["Pets", "Dogs", "Cats", "82%"]),
    (
        "gitGraph",
        "gitGraph\n  commit id: \"first\"\n  branch develop\n  commit id: \"second\"\n  checkout main\n  merge develop tag: \"v1\"",
        &["first", "develop", "second", "v1"],
    ),
    (
        "mindmap",
        "mindmap\n  root((Centre))\n    Origins\n      History\n    Tools",
        &["Centre", "Origins", "History", "Tools"],
    ),
    (
        "timeline",
        "timeline\n  title Networks\n  2002 : LinkedIn\n  2004 : Facebook : Google",
        &["Networks", "2002", "LinkedIn", "Facebook"],
    ),
    (
        "quadrant",
        "quadrantChart\n  title Reach\n  x-axis Low --> High\n  y-axis Small --> Large\n  quadrant-1 Expand\n  Campaign A: [0.3, 0.6]",
        &["Reach", "Low", "High", "Expand", "CampaignA"],
    ),
    (
        "requirement",
        "requirementDiagram\n  requirement test_req {\n    id: 1\n    text: the test text\n    risk: high\n    verifymethod: test\n  }\n  element test_entity {\n    type: simulation\n  }\n  test_entity - satisfies -> test_req",
        &["test_req", "thetesttext", "test_entity", "satisfies"],
    ),
    (
        "journey",
        "journey\n  title My day\n  section Go to work\n    Make tea: 5: Me\n    Do work: 1: Me, Cat",
        &["Myday", "Gotowork", "Maketea", "Cat"],
    ),
    (
        "C4",
        "C4Context\n  title System\n  Person(customer, \"Customer\", \"A person\")\n  System(bank, \"Banking\", \"Shows accounts\")\n  Rel(customer, bank, \"Uses\")",
        &["System", "Customer", "Banking", "Uses"],
    ),
    (
        "sankey",
        "sankey-beta\n\nCoal,Electricity,25\nElectricity,Homes,15\n",
        &["Coal", "Electricity", "Homes"],
    ),
    (
        "xychart",
        "xychart-beta\n  title \"Sales\"\n  x-axis [jan, feb, mar]\n  y-axis \"Revenue\" 0 --> 100\n  bar [30, 60, 90]\n  line [20, 50, 80]",
        &["Sales", "jan", "mar", "Revenue"],
    ),
    ("block", "block-beta\n  columns 2\n  a[\"Front\"] b[\"Back\"]\n  a --> b", &["Front", "Back"]),
    (
        "packet",
        "packet-beta\n  0-15: \"Source Port\"\n  16-31: \"Destination Port\"",
        &["SourcePort", "DestinationPort"],
    ),
    (
        "kanban",
        "kanban\n  todo[Todo]\n    t1[Write docs]\n  done[Done]\n    t2[Ship]",
        &["Todo", "Writedocs", "Done", "Ship"],
    ),
    (
        "architecture",
        "architecture-beta\n  group api(cloud)[API]\n  service db(database)[Store] in api\n  service web(server)[Web] in api\n  db:L -- R:web",
        &["API", "Store", "Web"],
    ),
    (
        "radar",
        "radar-beta\n  title Grades\n  axis m[\"Math\"], s[\"Science\"], e[\"English\"]\n  curve a[\"Alice\"]{85, 90, 80}\n  max 100",
        &["Grades", "Math", "Science", "Alice"],
    ),
    (
        "treemap",
        "treemap-beta\n\"Root\"\n    \"Leaf one\": 10\n    \"Leaf two\": 20",
        &["Root", "Leafone", "Leaftwo"],
    ),
];

#[test]
fn every_type_of_diagram_is_drawn_with_its_labels() {
    for (name, source, labels) in TYPES {
        let drawn = svg(Format::Mermaid, source).unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = text_of(&drawn);
        for label in *labels {
            assert!(text.contains(label), "{name}: {label} is not in {text}");
        }
    }
}

#[test]
fn a_type_that_nobody_knows_is_said_to_be_unsupported() {
    for source in ["hologramDiagram\n  a b", "no diagram at all", "%% only\nsomething"] {
        let error = svg(Format::Mermaid, source).unwrap_err();
        assert_eq!(error.code, Code::Unsupported, "{error}");
    }
    let error = svg(Format::Mermaid, " \n").unwrap_err();
    assert_eq!(error.code, Code::Syntax, "{error}");
}

#[test]
fn a_large_flowchart_is_drawn() {
    let edges: Vec<_> = (0..300).map(|n| format!("n{n}[Node {n}] --> n{}", n + 1)).collect();
    let edges = edges.join("\n");
    let text = text_of(&svg(Format::Mermaid, &format!("flowchart TD\n{edges}")).unwrap());
    assert!(text.contains("Node0") && text.contains("Node299"));
}

/// A link is left out, and what it is around stays where it is.
#[test]
fn a_node_that_can_be_clicked_is_at_its_place() {
    let source = "flowchart LR\n  a[One] --> b[Two]\n  click a \"https://example.com\" \"tip\"\n";
    let drawn = svg(Format::Mermaid, source).unwrap();
    let one = drawn.find(">One<").unwrap();
    let node = drawn.get(..one).and_then(|before| before.rfind("class=\"node")).unwrap();
    let group = drawn.get(..node).and_then(|before| before.rfind("<g")).unwrap();
    let group = drawn.get(group..one).unwrap();
    assert!(group.contains("transform=\"translate("), "{group}");
    assert!(!drawn.contains("example.com"));
}
