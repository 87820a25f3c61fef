//! Independent check of sanitized SVG, for tests and the fuzzer.

use roxmltree::{Document, Node};

/// Panics if an SVG contains anything that runs, links or loads. Shares no code with the sanitizer.
pub(crate) fn inspect(svg: &str) {
    assert!(!svg.contains("<!") && !svg.contains("<?"), "{svg}");
    let document = match Document::parse(svg) {
        Ok(document) => document,
        Err(error) => panic_invalid(&error, svg),
    };
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name().to_ascii_lowercase();
        assert_eq!(node.tag_name().namespace(), Some("http://www.w3.org/2000/svg"), "{svg}");
        let moving = name.starts_with("animate") || name == "set";
        let running = ["script", "foreignobject", "iframe", "handler", "listener", "a"];
        assert!(!moving && !running.contains(&name.as_str()), "{svg}");
        if name == "use" {
            let within = node.ancestors().filter_map(|around| around.attribute("id"));
            let ids: Vec<_> = within.map(|id| format!("#{id}")).collect();
            let mut uses = document.descendants().filter(|other| other.tag_name().name() == "use");
            let copied = |other: Node<'_, '_>| other.attribute("href").map(str::to_owned);
            assert!(!uses.any(|other| copied(other).is_some_and(|id| ids.contains(&id))), "{svg}");
        }
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
        let font =
            target.starts_with("data:application/font-woff;") || target.starts_with("data:font/");
        assert!(target.starts_with('#') || font, "{svg}");
    }
}

#[expect(clippy::panic, reason = "violated properties panic")]
fn panic_invalid(error: &roxmltree::Error, svg: &str) -> ! {
    panic!("{error}: {svg}")
}
