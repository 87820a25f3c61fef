//! Text widths, from the fonts that text is drawn with.

use std::collections::HashMap;
use std::sync::LazyLock;

use d2_little::fonts::{FONT_FAMILIES, FONT_STYLES, FontFamily, FontStyle, lookup_font_face};
use ttf_parser::Face;

/// Style of text that is measured by [`text_width`]. Kerning is off, because d2 embeds fonts without
/// its tables: text is equally wide in an SVG and in a PNG, and its width is the sum of its letters.
pub(crate) const NO_KERNING: &str = "font-kerning:none";

/// Width of a character that no embedded font has, in units of the font size. A reader's font for it,
/// for example a Chinese one, is rarely wider.
const UNKNOWN_EM: f64 = 1.0;

type D2Font = (FontFamily, FontStyle);

static FACES: LazyLock<HashMap<D2Font, Face<'static>>> = LazyLock::new(|| {
    let families = FONT_FAMILIES.iter();
    let fonts = families.flat_map(|family| FONT_STYLES.iter().map(|style| (*family, *style)));
    let load = |font: D2Font| Face::parse(lookup_font_face(font.0, font.1), 0).ok();
    fonts.filter_map(|font| load(font).map(|face| (font, face))).collect()
});

/// Font for characters that a font of d2 lacks.
static FALLBACK: LazyLock<Option<Face<'static>>> =
    LazyLock::new(|| Face::parse(dejavu::sans::regular(), 0).ok());

/// Returns the width of one line of text.
pub(crate) fn text_width(font: D2Font, size: f64, text: &str) -> f64 {
    let Some(face) = FACES.get(&font) else { return 0.0 };
    let fallback = |letter| FALLBACK.as_ref().and_then(|face| advance(face, letter));
    let visible = text.chars().filter(|letter| !is_invisible(*letter));
    let widths = visible
        .map(|letter| advance(face, letter).or_else(|| fallback(letter)).unwrap_or(UNKNOWN_EM));
    widths.sum::<f64>() * size
}

fn advance(face: &Face<'_>, letter: char) -> Option<f64> {
    let advance = face.glyph_hor_advance(face.glyph_index(letter)?)?;
    Some(f64::from(advance) / f64::from(face.units_per_em()))
}

/// Returns true for joiners, marks of direction and variation selectors.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// Returns the distance from the top of a line to its baseline, as browsers compute it.
pub(crate) fn baseline(font: D2Font, size: f64, line_height: f64) -> f64 {
    let Some(face) = FACES.get(&font) else { return size };
    let em = f64::from(face.units_per_em());
    let (ascent, descent) = (f64::from(face.ascender()) / em, f64::from(face.descender()) / em);
    (line_height - (ascent - descent) * size) / 2.0 + ascent * size
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGULAR: D2Font = (FontFamily::SourceSansPro, FontStyle::Regular);

    #[test]
    fn text_width_grows_with_text_size_and_weight() {
        let width = text_width(REGULAR, 16.0, "Longhaul");
        assert!((50.0..70.0).contains(&width), "{width}");
        assert!((text_width(REGULAR, 32.0, "Longhaul") - 2.0 * width).abs() < 1e-9);
        assert!(text_width((FontFamily::SourceSansPro, FontStyle::Bold), 16.0, "Longhaul") > width);
        assert!(text_width(REGULAR, 16.0, "").abs() < f64::EPSILON);
    }

    #[test]
    fn characters_without_a_glyph_have_a_width() {
        // The first is in the fallback font, the others in none.
        for text in ["\u{2602}", "\u{4e2d}", "\u{1f9ff}"] {
            assert!(text_width(REGULAR, 16.0, text) > 8.0, "{text}");
        }
        assert!(text_width(REGULAR, 16.0, "\u{200b}\u{fe0f}").abs() < f64::EPSILON);
    }

    #[test]
    fn baseline_is_inside_the_line() {
        let baseline = baseline(REGULAR, 16.0, 24.0);
        assert!((16.0..20.0).contains(&baseline), "{baseline}");
    }
}
