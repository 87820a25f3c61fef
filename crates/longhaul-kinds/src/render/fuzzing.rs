//! What holds of every SVG that we hand out, whatever it was made from.

use super::clean::{Canvas, clean, inspect};
use crate::fuzzing::Target;

pub(crate) const CLEAN: Target = (
    "svg clean",
    cleaned,
    &[
        br#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><style>.a{fill:url(#b)} @import 'x';</style><a href="http://x.example/"><text class="a" onclick="f()">t</text></a><image href="data:image/png;base64,AAAA"/></svg>"#,
        br#"<s:svg xmlns:s="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink"><s:script>f()</s:script><s:use x:href="//x.example/a#b"/><s:foreignObject><p xmlns="http://www.w3.org/1999/xhtml"/></s:foreignObject></s:svg>"#,
        br#"<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>"#,
        br#"<svg xmlns="http://www.w3.org/2000/svg" style="fill:url( 'http://x.example/' );stroke:u\72l(x)"><set attributeName="href" to="javascript:f()"/></svg>"#,
    ],
);

/// Nothing in it runs, links or loads, and there is nothing left to be cleaned.
fn cleaned(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(once) = clean(text, &Canvas::default()) else { return };
    inspect::inspect(&once.svg);
    let twice = clean(&once.svg, &Canvas::default()).map(|cleaned| cleaned.svg);
    assert_eq!(twice.as_ref(), Ok(&once.svg));
}
