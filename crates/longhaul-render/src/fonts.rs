//! Embedded fonts to measure and draw text with, because a bare machine has none.

use std::sync::{Arc, LazyLock};

use d2_little::fonts::{FontFamily as D2Family, FontStyle as D2Style, lookup_font_face};
use merman::OperationControl;
use merman::svg::export::{NativeFontContext, NativeFontError, NativeFontLimits};
use resvg::usvg::fontdb::{Database, Family, ID, Query, Style, Weight};
use resvg::usvg::{Font, FontFamily, FontResolver, FontStyle};

/// Font family of mermaid text. A reader without `DejaVu Sans` probably has Verdana, which is equally wide.
pub(crate) const SANS: &str = "DejaVu Sans, Verdana, sans-serif";
const DEFAULT: &str = "DejaVu Sans";
const MONO: &str = "DejaVu Sans Mono";

/// Font family suffixes of d2. Each diagram puts its id in front.
const D2_FONTS: [(&str, D2Family, D2Style); 8] = [
    ("-font-regular", D2Family::SourceSansPro, D2Style::Regular),
    ("-font-semibold", D2Family::SourceSansPro, D2Style::Semibold),
    ("-font-bold", D2Family::SourceSansPro, D2Style::Bold),
    ("-font-italic", D2Family::SourceSansPro, D2Style::Italic),
    ("-font-mono", D2Family::SourceCodePro, D2Style::Regular),
    ("-font-mono-semibold", D2Family::SourceCodePro, D2Style::Semibold),
    ("-font-mono-bold", D2Family::SourceCodePro, D2Style::Bold),
    ("-font-mono-italic", D2Family::SourceCodePro, D2Style::Italic),
];

static FONTS: LazyLock<Fonts> = LazyLock::new(Fonts::load);

struct Fonts {
    all: Arc<Database>,
    /// Fonts of d2 by the suffix of their family.
    d2: Vec<(&'static str, ID)>,
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

/// Maps font families in an SVG to embedded fonts, unknown ones to the default font.
pub(crate) fn resolver() -> FontResolver<'static> {
    FontResolver {
        select_font: Box::new(|font, _| FONTS.choose(font)),
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
        for (end, family, style) in D2_FONTS {
            let known = all.len();
            all.load_font_data(lookup_font_face(family, style).to_vec());
            d2.extend(all.faces().nth(known).map(|face| (end, face.id)));
        }
        Self { all: Arc::new(all), d2 }
    }

    fn choose(&self, font: &Font) -> Option<ID> {
        for family in font.families() {
            if let FontFamily::Named(name) = family
                && let Some((_, id)) = self.d2.iter().find(|(end, _)| name.ends_with(end))
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
        assert_eq!(FONTS.all.len(), dejavu().len() + D2_FONTS.len());
        assert_eq!(FONTS.d2.len(), D2_FONTS.len());
    }
}
