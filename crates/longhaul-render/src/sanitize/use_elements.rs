//! Elements that are shown again elsewhere, by `use`.
//!
//! A copy of use_elements of use_elements makes a billion elements of a few. So what is copied has no use_elements in it, and all
//! use_elements together are bounded.

use std::collections::HashMap;

use roxmltree::{Document, Node};

use super::allowed;

/// How many elements all use_elements together may have.
const COPIED_MAX: usize = 200_000;

/// What can be copied, and how much of it still may.
pub(super) struct UseElements<'a> {
    originals: HashMap<&'a str, Original>,
    left: usize,
}

/// All elements of one id: which of them is meant is for whoever shows it to say.
#[derive(Default)]
struct Original {
    elements: usize,
    has_copies: bool,
}

impl<'a> UseElements<'a> {
    pub(super) fn of(document: &'a Document<'_>) -> Self {
        let mut originals: HashMap<&str, Original> = HashMap::new();
        let targets = document.descendants().filter(is_copy).filter_map(target);
        originals.extend(targets.map(|id| (id, Original::default())));
        let mut named = Vec::new();
        if !originals.is_empty() {
            named.extend(document.descendants().filter(Node::is_element));
        }
        for node in named {
            let id = node.attribute("id");
            if let Some(original) = id.and_then(|id| originals.get_mut(id)) {
                // No more than may be copied is looked at, however they nest.
                let elements = node.descendants().take(COPIED_MAX).filter(Node::is_element);
                for element in elements {
                    original.elements += 1;
                    original.has_copies |= is_copy(&element);
                }
            }
        }
        Self { originals, left: COPIED_MAX }
    }

    /// Whether this copy may be made; `None` if there are too many.
    pub(super) fn may_copy(&mut self, copy: Node<'_, '_>) -> Option<bool> {
        let Some(original) = target(copy).and_then(|id| self.originals.get(id)) else {
            return Some(false);
        };
        if original.has_copies {
            return Some(false);
        }
        self.left = self.left.checked_sub(original.elements)?;
        Some(true)
    }
}

fn is_copy(node: &Node<'_, '_>) -> bool {
    node.is_element() && node.tag_name().name() == "use"
}

/// The id of what it use_elements: as it will be written, which is the first of its references that is harmless.
fn target<'a>(copy: Node<'a, '_>) -> Option<&'a str> {
    let mut hrefs = copy.attributes().filter(super::is_href);
    let href = hrefs.find(|attribute| allowed::href(attribute.value()))?;
    href.value().strip_prefix('#')
}
