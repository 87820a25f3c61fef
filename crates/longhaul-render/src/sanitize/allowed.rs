//! What an SVG may be made of.

/// What becomes of an element.
pub(super) enum Fate {
    /// It is written, under this name.
    Kept(&'static str),
    /// It is not, nor what is in it.
    Dropped,
}

/// Shapes, text, rasterize and filters. Nothing that moves: what is animated can become what it was not.
const ELEMENTS: [&str; 42] = [
    "circle",
    "clipPath",
    "defs",
    "desc",
    "ellipse",
    "feBlend",
    "feColorMatrix",
    "feComponentTransfer",
    "feComposite",
    "feDropShadow",
    "feFlood",
    "feFuncA",
    "feFuncB",
    "feFuncG",
    "feFuncR",
    "feGaussianBlur",
    "feMerge",
    "feMergeNode",
    "feMorphology",
    "feOffset",
    "feTurbulence",
    "filter",
    "g",
    "image",
    "line",
    "linearGradient",
    "marker",
    "mask",
    "path",
    "pattern",
    "polygon",
    "polyline",
    "radialGradient",
    "rect",
    "stop",
    "style",
    "svg",
    "symbol",
    "text",
    "title",
    "tspan",
    "use",
];

const ATTRIBUTES: &[&str] = &[
    "alignment-baseline",
    "baseline-shift",
    "class",
    "clip-path",
    "clip-rule",
    "clipPathUnits",
    "color",
    "color-interpolation-filters",
    "cx",
    "cy",
    "d",
    "data-look",
    "direction",
    "display",
    "dominant-baseline",
    "dx",
    "dy",
    "fill",
    "fill-opacity",
    "fill-rule",
    "filter",
    "filterUnits",
    "flood-color",
    "flood-opacity",
    "font-family",
    "font-size",
    "font-style",
    "font-weight",
    "fr",
    "fx",
    "fy",
    "gradientTransform",
    "gradientUnits",
    "height",
    "id",
    "in",
    "in2",
    "k1",
    "k2",
    "k3",
    "k4",
    "lengthAdjust",
    "letter-spacing",
    "marker-end",
    "marker-mid",
    "marker-start",
    "markerHeight",
    "markerUnits",
    "markerWidth",
    "mask",
    "maskContentUnits",
    "maskUnits",
    "mode",
    "offset",
    "opacity",
    "operator",
    "orient",
    "overflow",
    "patternContentUnits",
    "patternTransform",
    "patternUnits",
    "points",
    "preserveAspectRatio",
    "primitiveUnits",
    "r",
    "radius",
    "refX",
    "refY",
    "result",
    "role",
    "rotate",
    "rx",
    "ry",
    "shape-rendering",
    "slope",
    "spreadMethod",
    "stdDeviation",
    "stop-color",
    "stop-opacity",
    "stroke",
    "stroke-dasharray",
    "stroke-dashoffset",
    "stroke-linecap",
    "stroke-linejoin",
    "stroke-miterlimit",
    "stroke-opacity",
    "stroke-width",
    "tableValues",
    "text-anchor",
    "text-decoration",
    "text-rendering",
    "textLength",
    "transform",
    "transform-origin",
    "type",
    "values",
    "vector-effect",
    "viewBox",
    "visibility",
    "white-space",
    "width",
    "writing-mode",
    "x",
    "x1",
    "x2",
    "y",
    "y1",
    "y2",
];

/// What becomes of an element of SVG.
pub(super) fn element(name: &str) -> Fate {
    match ELEMENTS.into_iter().find(|known| *known == name) {
        Some(known) => Fate::Kept(known),
        // A link's text is part of the render, and where it leads is not.
        // A link without its target is a group.
        None if name == "a" => Fate::Kept("g"),
        None => Fate::Dropped,
    }
}

/// Whether an attribute without a namespace is written. `href` and `style` are looked at more closely.
pub(super) fn attribute(name: &str) -> bool {
    ATTRIBUTES.binary_search(&name).is_ok() || name.starts_with("aria-")
}

/// Whether a reference leads nowhere else: to the same document, or to a render that it holds itself.
pub(super) fn href(value: &str) -> bool {
    let inline = ["data:image/png;base64,", "data:image/jpeg;base64,"];
    let inline = inline.into_iter().find_map(|start| value.strip_prefix(start));
    inline.map_or_else(|| value.starts_with('#'), base64)
}

/// Whether it is nothing but base64.
pub(super) fn base64(text: &str) -> bool {
    text.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"+/=".contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_order() {
        assert!(ELEMENTS.is_sorted());
        assert!(ATTRIBUTES.is_sorted());
    }

    #[test]
    fn references_lead_nowhere_else() {
        for good in ["#a", "data:image/png;base64,AAAA", "data:image/jpeg;base64,AA=="] {
            assert!(href(good), "{good}");
        }
        for bad in [
            "http://x.example/",
            "//x.example/",
            "javascript:alert(1)",
            " #a",
            "a.svg#b",
            "",
            "data:image/svg+xml;base64,AAAA",
            "data:text/html,<script>",
            "data:image/png;base64,AA\" onload=\"x",
            "DATA:image/png,x",
        ] {
            assert!(!href(bad), "{bad}");
        }
    }
}
