//! Constructs that d2-little ignores or draws wrongly, found before it draws them.
//!
//! Some belong to other layout engines than dagre; d2 rejects those with dagre, too.

use d2_little::ast::{ArrayNode, Import, Map, MapNode, Range, ValueBox};
use d2_little::graph::{Edge, Graph, ObjId, Object};

use super::unsupported;
use crate::RenderError;

/// Language of LaTeX labels.
const LATEX: &str = "latex";
/// Values of `near` that are no shapes.
const CONSTANTS: [&str; 8] = [
    "top-left",
    "top-center",
    "top-right",
    "center-left",
    "center-right",
    "bottom-left",
    "bottom-center",
    "bottom-right",
];

/// Rejects imports. The renderer ignores them, so the diagram would be incomplete.
pub(super) fn check_imports(source: &str, map: &Map) -> Result<(), RenderError> {
    match import_in(map) {
        Some(import) => {
            Err(located("imports of other files are not supported", source, Some(&import.range)))
        }
        None => Ok(()),
    }
}

/// Rejects a diagram whose drawing would be wrong or incomplete.
pub(super) fn check(source: &str, graph: &Graph) -> Result<(), RenderError> {
    for (id, object) in graph.objects.iter().enumerate().filter(|(id, _)| *id != graph.root) {
        if let Some(problem) = problem_of_object(graph, id, object) {
            let range = object.references.first().map(|reference| &reference.key.range);
            return Err(located(&problem, source, range));
        }
    }
    for edge in &graph.edges {
        if let Some(problem) = problem_of_edge(graph, edge) {
            return Err(located(problem, source, edge.first_ast_range.as_ref()));
        }
    }
    Ok(())
}

fn located(message: &str, source: &str, range: Option<&Range>) -> RenderError {
    let error = unsupported(message);
    match range {
        Some(Range { start, .. }) => error.at(source, start.line + 1, start.column + 1),
        None => error,
    }
}

fn problem_of_object(graph: &Graph, id: ObjId, object: &Object) -> Option<String> {
    if object.language == LATEX {
        return Some("LaTeX formulas are not supported".to_owned());
    }
    if object.top.is_some() || object.left.is_some() {
        return Some(
            "fixed positions (top, left) are not supported by the layout dagre".to_owned(),
        );
    }
    let sized = object.width_attr.is_some() || object.height_attr.is_some();
    if sized && is_container(graph, id) && !object.is_grid_diagram() {
        let message = "the size of a container is not supported by the layout dagre";
        return Some(message.to_owned());
    }
    let near = object.near_key.as_deref().filter(|near| !CONSTANTS.contains(near))?;
    Some(format!(
        "near: {near} is not supported by the layout dagre, only constants such as top-left"
    ))
}

fn problem_of_edge(graph: &Graph, edge: &Edge) -> Option<&'static str> {
    if edge.language == LATEX {
        return Some("LaTeX formulas are not supported");
    }
    let (from, to) = (graph.objects.get(edge.src)?, graph.objects.get(edge.dst)?);
    let containers = is_container(graph, edge.src) || is_container(graph, edge.dst);
    let in_sequence =
        from.is_inside_sequence_diagram(graph) || to.is_inside_sequence_diagram(graph);
    if !containers || in_sequence {
        return None;
    }
    if edge.src == edge.dst {
        return Some(
            "a connection from a container to itself is not supported by the layout dagre",
        );
    }
    let nested = from.is_descendant_of(edge.src, edge.dst, graph)
        || to.is_descendant_of(edge.dst, edge.src, graph);
    nested.then_some(
        "a connection between a container and its content is not supported by the layout dagre",
    )
}

fn is_container(graph: &Graph, id: ObjId) -> bool {
    graph.objects.get(id).is_some_and(|object| !object.children_array.is_empty())
}

fn import_in(map: &Map) -> Option<&Import> {
    map.nodes.iter().find_map(|node| match node {
        MapNode::Import(import) => Some(import),
        MapNode::Key(key) => key.value.as_ref().and_then(import_in_value),
        MapNode::Comment(_) | MapNode::BlockComment(_) | MapNode::Substitution(_) => None,
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "defined by the renderer: all literals")]
fn import_in_value(value: &ValueBox) -> Option<&Import> {
    match value {
        ValueBox::Import(import) => Some(import),
        ValueBox::Map(map) => import_in(map),
        ValueBox::Array(array) => array.nodes.iter().find_map(|node| match node {
            ArrayNode::Import(import) => Some(import),
            ArrayNode::Map(map) => import_in(map),
            _ => None,
        }),
        _ => None,
    }
}
