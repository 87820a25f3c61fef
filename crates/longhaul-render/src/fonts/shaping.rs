//! Text widths, from the fonts and the shaper that a PNG is drawn with.

use std::collections::HashMap;
use std::sync::LazyLock;

use d2_little::fonts::{FontFamily, FontStyle, lookup_font_face};
use rustybuzz::{Face, UnicodeBuffer, shape, ttf_parser};

/// Width of a character that no embedded font has, in units of the font size. A reader's font for it,
/// for example a Chinese one, is rarely wider.
const UNKNOWN_EM: f64 = 1.0;

type D2Font = (FontFamily, FontStyle);

static FACES: LazyLock<HashMap<D2Font, Face<'static>>> = LazyLock::new(|| {
    let families = d2_little::fonts::FONT_FAMILIES.iter();
    let fonts = families
        .flat_map(|family| d2_little::fonts::FONT_STYLES.iter().map(|style| (*family, *style)));
    let loaded = fonts
        .filter_map(|font| Some((font, Face::from_slice(lookup_font_face(font.0, font.1), 0)?)));
    loaded.collect()
});

/// Font for characters that a font of d2 lacks.
static FALLBACK: LazyLock<Option<ttf_parser::Face<'static>>> =
    LazyLock::new(|| ttf_parser::Face::parse(dejavu::sans::regular(), 0).ok());

/// Returns the width of one line of text.
pub(crate) fn text_width(font: D2Font, size: f64, text: &str) -> f64 {
    let Some(face) = FACES.get(&font) else { return 0.0 };
    let mut buffer = UnicodeBuffer::new();
    buffer.push_str(text);
    let shaped = shape(face, &[], buffer);
    let glyphs = shaped.glyph_infos().iter().zip(shaped.glyph_positions());
    let ems = glyphs.map(|(glyph, position)| {
        if glyph.glyph_id == 0 {
            return fallback_width(text, glyph.cluster);
        }
        f64::from(position.x_advance) / f64::from(face.units_per_em())
    });
    ems.sum::<f64>() * size
}

fn fallback_width(text: &str, cluster: u32) -> f64 {
    let at = usize::try_from(cluster).unwrap_or(usize::MAX);
    let letter = text.get(at..).and_then(|rest| rest.chars().next());
    let known = letter.zip(FALLBACK.as_ref()).and_then(|(letter, face)| {
        let advance = face.glyph_hor_advance(face.glyph_index(letter)?)?;
        Some(f64::from(advance) / f64::from(face.units_per_em()))
    });
    known.unwrap_or(UNKNOWN_EM)
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
        for text in ["\u{2713}", "\u{4e2d}", "\u{1f600}"] {
            assert!(text_width(REGULAR, 16.0, text) > 8.0, "{text}");
        }
    }

    #[test]
    fn baseline_is_inside_the_line() {
        let baseline = baseline(REGULAR, 16.0, 24.0);
        assert!((16.0..20.0).contains(&baseline), "{baseline}");
    }
}
