//! What holds of every SVG that we hand out, whatever it was made from.

use roxmltree::{Document, Node};

use super::clean::{Canvas, clean};
use crate::fuzzing::Target;

pub(crate) const CLEAN: Target = (
    "svg clean",
    cleaned,
    &[
        br##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><style>.a{fill:url(#b)} @import 'x';</style><a href="http://x.example/"><text class="a" onclick="f()">t</text></a><image href="data:image/png;base64,AAAA"/></svg>"##,
        br#"<s:svg xmlns:s="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink"><s:script>f()</s:script><s:use x:href="//x.example/a#b"/><s:foreignObject><p xmlns="http://www.w3.org/1999/xhtml"/></s:foreignObject></s:svg>"#,
        br#"<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>"#,
        br#"<svg xmlns="http://www.w3.org/2000/svg" style="fill:url( 'http://x.example/' );stroke:u\72l(x)"><set attributeName="href" to="javascript:f()"/></svg>"#,
    ],
);

/// Nothing in it runs, links or loads, and there is nothing left to be cleaned.
fn cleaned(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(once) = clean(text, &Canvas::default()) else { return };
    inspect(&once.svg);
    let twice = clean(&once.svg, &Canvas::default()).map(|cleaned| cleaned.svg);
    assert_eq!(twice.as_ref(), Ok(&once.svg));
}

/// Panics at whatever could do something. Knows nothing of how it was cleaned.
pub(super) fn inspect(svg: &str) {
    assert!(!svg.contains("<!") && !svg.contains("<?"), "{svg}");
    let document = match Document::parse(svg) {
        Ok(document) => document,
        Err(error) => unreadable(&error, svg),
    };
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name().to_ascii_lowercase();
        assert_eq!(node.tag_name().namespace(), Some("http://www.w3.org/2000/svg"), "{svg}");
        let moving = name.starts_with("animate") || name == "set" || name == "use";
        let running = ["script", "foreignobject", "iframe", "handler", "listener", "a"];
        assert!(!moving && !running.contains(&name.as_str()), "{svg}");
        for attribute in node.attributes() {
            let (name, value) = (attribute.name().to_ascii_lowercase(), attribute.value());
            assert!(!name.starts_with("on") && name != "src", "{svg}");
            if name == "href" {
                assert!(value.starts_with('#') || value.starts_with("data:image/"), "{svg}");
            } else {
                loads_nothing(value, svg);
            }
        }
        if name == "style" {
            loads_nothing(node.text().unwrap_or_default(), svg);
        }
    }
}

fn loads_nothing(css: &str, svg: &str) {
    let css: String = css.to_ascii_lowercase().split_whitespace().collect();
    assert!(!css.contains('\\') && !css.contains("@import"), "{svg}");
    assert!(!css.contains("image-set(") && !css.contains("src("), "{svg}");
    for target in css.split("url(").skip(1) {
        let target = target.trim_start_matches(['"', '\'']);
        let font = target.starts_with("data:application/font-woff;") || target.starts_with("data:font/");
        assert!(target.starts_with('#') || font, "{svg}");
    }
}

#[expect(clippy::panic, reason = "a property that does not hold panics")]
fn unreadable(error: &roxmltree::Error, svg: &str) -> ! {
    panic!("{error}: {svg}")
}
