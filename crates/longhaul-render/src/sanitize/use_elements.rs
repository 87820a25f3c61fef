//! Limits of `use` elements, which draw another element again.
//!
//! Nested references would expand a few elements to billions. So a referenced element may not contain
//! `use` itself, and the number of expanded elements is limited.

use std::collections::HashMap;

use roxmltree::{Document, Node};

use super::allowed;

/// Elements that all references together may expand to.
const EXPANDED_MAX: usize = 200_000;

/// Referenced elements and the remaining expansion budget.
pub(super) struct UseElements<'a> {
    referenced: HashMap<&'a str, UseTarget>,
    budget: usize,
}

/// All elements with one id, because viewers differ in which one they draw.
#[derive(Default)]
struct UseTarget {
    elements: usize,
    has_use: bool,
}

impl<'a> UseElements<'a> {
    pub(super) fn collect(document: &'a Document<'_>) -> Self {
        let mut referenced: HashMap<&str, UseTarget> = HashMap::new();
        let targets = document.descendants().filter(is_use).filter_map(target);
        referenced.extend(targets.map(|id| (id, UseTarget::default())));
        if !referenced.is_empty() {
            for node in document.descendants().filter(Node::is_element) {
                let id = node.attribute("id");
                let Some(found) = id.and_then(|id| referenced.get_mut(id)) else { continue };
                // Bounded, because nested elements with ids are counted repeatedly.
                for element in node.descendants().take(EXPANDED_MAX).filter(Node::is_element) {
                    found.elements += 1;
                    found.has_use |= is_use(&element);
                }
            }
        }
        Self { referenced, budget: EXPANDED_MAX }
    }

    /// Returns true if a `use` element is written, or `None` if the budget is exhausted.
    pub(super) fn may_expand(&mut self, node: Node<'_, '_>) -> Option<bool> {
        let Some(found) = target(node).and_then(|id| self.referenced.get(id)) else {
            return Some(false);
        };
        if found.has_use {
            return Some(false);
        }
        self.budget = self.budget.checked_sub(found.elements)?;
        Some(true)
    }
}

fn is_use(node: &Node<'_, '_>) -> bool {
    node.is_element() && node.tag_name().name() == "use"
}

/// Returns the referenced id, from the first reference that the sanitizer writes.
fn target<'a>(node: Node<'a, '_>) -> Option<&'a str> {
    let mut hrefs = node.attributes().filter(super::is_href);
    let href = hrefs.find(|attribute| allowed::href(attribute.value()))?;
    href.value().strip_prefix('#')
}
