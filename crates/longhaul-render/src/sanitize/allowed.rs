//! Allow-lists of SVG elements and attributes.

/// Shapes, text, paint and filters. No animations, because they can set attributes such as `href`.
#[rustfmt::skip]
const ELEMENTS: [&str; 42] = [
    "circle", "clipPath", "defs", "desc", "ellipse", "feBlend", "feColorMatrix",
    "feComponentTransfer", "feComposite", "feDropShadow", "feFlood", "feFuncA", "feFuncB",
    "feFuncG", "feFuncR", "feGaussianBlur", "feMerge", "feMergeNode", "feMorphology", "feOffset",
    "feTurbulence", "filter", "g", "image", "line", "linearGradient", "marker", "mask", "path",
    "pattern", "polygon", "polyline", "radialGradient", "rect", "stop", "style", "svg", "symbol",
    "text", "title", "tspan", "use",
];

#[rustfmt::skip]
const ATTRIBUTES: &[&str] = &[
    "alignment-baseline", "baseline-shift", "class", "clip-path", "clip-rule", "clipPathUnits",
    "color", "color-interpolation-filters", "cx", "cy", "d", "data-look", "direction", "display",
    "dominant-baseline", "dx", "dy", "fill", "fill-opacity", "fill-rule", "filter", "filterUnits",
    "flood-color", "flood-opacity", "font-family", "font-size", "font-style", "font-weight", "fr",
    "fx", "fy", "gradientTransform", "gradientUnits", "height", "id", "in", "in2", "k1", "k2",
    "k3", "k4", "lengthAdjust", "letter-spacing", "marker-end", "marker-mid", "marker-start",
    "markerHeight", "markerUnits", "markerWidth", "mask", "maskContentUnits", "maskUnits", "mode",
    "offset", "opacity", "operator", "orient", "overflow", "patternContentUnits",
    "patternTransform", "patternUnits", "points", "preserveAspectRatio", "primitiveUnits", "r",
    "radius", "refX", "refY", "result", "role", "rotate", "rx", "ry", "shape-rendering", "slope",
    "spreadMethod", "stdDeviation", "stop-color", "stop-opacity", "stroke", "stroke-dasharray",
    "stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit",
    "stroke-opacity", "stroke-width", "tableValues", "text-anchor", "text-decoration",
    "text-rendering", "textLength", "transform", "transform-origin", "type", "values",
    "vector-effect", "viewBox", "visibility", "white-space", "width", "writing-mode", "x", "x1",
    "x2", "y", "y1", "y2",
];

/// Returns the name under which an element is written, or `None` if it is dropped with its content.
pub(super) fn element(name: &str) -> Option<&'static str> {
    // A link becomes a group: its content stays, its target goes.
    let name = if name == "a" { "g" } else { name };
    ELEMENTS.into_iter().find(|known| *known == name)
}

/// Returns true if an attribute without a namespace is written. `href` and `style` have their own checks.
pub(super) fn attribute(name: &str) -> bool {
    ATTRIBUTES.binary_search(&name).is_ok() || name.starts_with("aria-")
}

/// Returns true for references to the same document and for embedded raster images.
pub(super) fn href(value: &str) -> bool {
    let inline = ["data:image/png;base64,", "data:image/jpeg;base64,"];
    let inline = inline.into_iter().find_map(|start| value.strip_prefix(start));
    inline.map_or_else(|| value.starts_with('#'), base64)
}

pub(super) fn base64(text: &str) -> bool {
    text.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"+/=".contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_lists_are_sorted() {
        assert!(ELEMENTS.is_sorted());
        assert!(ATTRIBUTES.is_sorted());
    }

    #[test]
    fn external_references_are_rejected() {
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
