//! Embedded fonts to measure and draw text with, because a bare machine has none.

mod text_width;

use std::sync::{Arc, LazyLock};

use d2_little::fonts::{
    FONT_FAMILIES, FontFamily as D2Family, FontStyle as D2Style, lookup_font_face,
};
use merman::OperationControl;
use merman::svg::export::{NativeFontContext, NativeFontError, NativeFontLimits};
use resvg::usvg::fontdb::{Database, Family, ID, Query, Style, Weight};
use resvg::usvg::{Font, FontFamily, FontResolver, FontStyle};

pub(crate) use text_width::{NO_KERNING, baseline, text_width};

/// Font family of mermaid text. A reader without `DejaVu Sans` probably has Verdana, which is equally wide.
pub(crate) const SANS: &str = "DejaVu Sans, Verdana, sans-serif";
const DEFAULT: &str = "DejaVu Sans";
const MONO: &str = "DejaVu Sans Mono";

/// Font family suffixes of d2 in the text font of a diagram. Each diagram puts its id in front.
const D2_TEXT: [(&str, D2Style); 4] = [
    ("-font-regular", D2Style::Regular),
    ("-font-semibold", D2Style::Semibold),
    ("-font-bold", D2Style::Bold),
    ("-font-italic", D2Style::Italic),
];
/// Font family suffixes of d2 in the monospaced font.
const D2_MONO: [(&str, D2Style); 4] = [
    ("-font-mono", D2Style::Regular),
    ("-font-mono-semibold", D2Style::Semibold),
    ("-font-mono-bold", D2Style::Bold),
    ("-font-mono-italic", D2Style::Italic),
];

static FONTS: LazyLock<Fonts> = LazyLock::new(Fonts::load);

struct Fonts {
    all: Arc<Database>,
    d2: Vec<(D2Family, D2Style, ID)>,
}

fn dejavu() -> [&'static [u8]; 5] {
    use dejavu::{sans, sans_mono};
    [sans::regular(), sans::bold(), sans::oblique(), sans::bold_oblique(), sans_mono::regular()]
}

/// Returns the fonts that mermaid measures with: the ones a PNG is drawn with, so that labels fit.
pub(crate) fn measuring() -> Result<NativeFontContext, NativeFontError> {
    let fonts = dejavu().into_iter().map(<[u8]>::to_vec);
    NativeFontContext::from_font_bytes(fonts, NativeFontLimits::default(), &OperationControl::new())
}

pub(crate) fn all() -> Arc<Database> {
    Arc::clone(&FONTS.all)
}

/// Maps font families in an SVG to embedded fonts, unknown ones to the default font. `d2` is the text
/// font of a d2 diagram, which depends on its theme.
pub(crate) fn resolver(d2: D2Family) -> FontResolver<'static> {
    FontResolver {
        select_font: Box::new(move |font, _| FONTS.choose(font, d2)),
        select_fallback: FontResolver::default_fallback_selector(),
    }
}

impl Fonts {
    fn load() -> Self {
        let mut all = Database::new();
        for font in dejavu() {
            all.load_font_data(font.to_vec());
        }
        all.set_sans_serif_family(DEFAULT);
        all.set_serif_family(DEFAULT);
        all.set_monospace_family(MONO);
        let mut d2 = Vec::new();
        for family in FONT_FAMILIES {
            for (_, style) in D2_TEXT {
                let known = all.len();
                all.load_font_data(lookup_font_face(*family, style).to_vec());
                d2.extend(all.faces().nth(known).map(|face| (*family, style, face.id)));
            }
        }
        Self { all: Arc::new(all), d2 }
    }

    fn choose(&self, font: &Font, d2: D2Family) -> Option<ID> {
        for family in font.families() {
            if let FontFamily::Named(name) = family
                && let Some(wanted) = d2_font(name, d2)
                && let Some((.., id)) = self.d2.iter().find(|font| (font.0, font.1) == wanted)
            {
                return Some(*id);
            }
        }
        let mut families: Vec<_> = font.families().iter().map(family).collect();
        families.push(Family::Name(DEFAULT));
        let style = match font.style() {
            FontStyle::Normal => Style::Normal,
            FontStyle::Italic => Style::Italic,
            FontStyle::Oblique => Style::Oblique,
        };
        let weight = Weight(font.weight());
        self.all.query(&Query { families: &families, weight, style, ..Query::default() })
    }
}

fn d2_font(name: &str, text: D2Family) -> Option<(D2Family, D2Style)> {
    let ends = |fonts: [(&'static str, D2Style); 4]| {
        fonts.into_iter().find(|(end, _)| name.ends_with(end))
    };
    let mono = || ends(D2_MONO).map(|(_, style)| (D2Family::SourceCodePro, style));
    ends(D2_TEXT).map(|(_, style)| (text, style)).or_else(mono)
}

fn family(family: &FontFamily) -> Family<'_> {
    match family {
        FontFamily::Monospace => Family::Monospace,
        FontFamily::Named(name) => Family::Name(name),
        FontFamily::Serif | FontFamily::SansSerif | FontFamily::Cursive | FontFamily::Fantasy => {
            Family::SansSerif
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_embedded_fonts_load() {
        let d2 = FONT_FAMILIES.len() * D2_TEXT.len();
        assert_eq!(FONTS.all.len(), dejavu().len() + d2);
        assert_eq!(FONTS.d2.len(), d2);
    }

    #[test]
    fn d2_font_families_name_their_font() {
        let font = |name| d2_font(name, D2Family::HandDrawn);
        assert_eq!(font("d2-1-font-bold"), Some((D2Family::HandDrawn, D2Style::Bold)));
        assert_eq!(font("d2-1-font-mono"), Some((D2Family::SourceCodePro, D2Style::Regular)));
        assert_eq!(font("d2-1-font-mono-bold"), Some((D2Family::SourceCodePro, D2Style::Bold)));
        assert_eq!(font("DejaVu Sans"), None);
    }
}
