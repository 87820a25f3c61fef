//! The fonts that text is measured and painted with: our own, since a bare machine has none.

use std::sync::{Arc, LazyLock};

use d2_little::fonts::{FontFamily as D2Family, FontStyle as D2Style, lookup_font_face};
use merman::OperationControl;
use merman::svg::export::{NativeFontContext, NativeFontError, NativeFontLimits};
use resvg::usvg::fontdb::{Database, Family, ID, Query, Style, Weight};
use resvg::usvg::{Font, FontFamily, FontResolver, FontStyle};

/// What mermaid's text is measured with. A machine that shows an SVG and has no such font likely has Verdana,
/// which is as wide.
pub(super) const SANS: &str = "DejaVu Sans, Verdana, sans-serif";
const DEFAULT: &str = "DejaVu Sans";
const MONO: &str = "DejaVu Sans Mono";

/// How d2 calls its fonts, behind a name that each diagram has of its own.
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

/// What a PNG is painted with.
struct Fonts {
    all: Arc<Database>,
    /// d2's, by the end of their names.
    d2: Vec<(&'static str, ID)>,
}

fn dejavu() -> [&'static [u8]; 5] {
    use dejavu::{sans, sans_mono};
    [sans::regular(), sans::bold(), sans::oblique(), sans::bold_oblique(), sans_mono::regular()]
}

/// What mermaid measures with: the same bytes that are painted, else labels are cut off.
pub(super) fn measuring() -> Result<NativeFontContext, NativeFontError> {
    let fonts = dejavu().into_iter().map(<[u8]>::to_vec);
    NativeFontContext::from_font_bytes(fonts, NativeFontLimits::default(), &OperationControl::new())
}

/// All fonts there are.
pub(super) fn all() -> Arc<Database> {
    Arc::clone(&FONTS.all)
}

/// How a name in an SVG leads to a font. Every name leads to one: text in another font than was meant is better
/// than none.
pub(super) fn resolver() -> FontResolver<'static> {
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
    fn every_font_is_there() {
        assert_eq!(FONTS.all.len(), dejavu().len() + D2_FONTS.len());
        assert_eq!(FONTS.d2.len(), D2_FONTS.len());
    }
}
