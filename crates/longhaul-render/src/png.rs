//! Rasterizes SVG to PNG.

use d2_little::fonts::FontFamily;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{ImageHrefResolver, Options as Reading, Tree};

use crate::{ErrorCode, Options, RenderError, RenderLimits, fonts};

/// Rasterizes a [sanitized](crate::sanitize) SVG.
pub(crate) fn rasterize(
    svg: &str,
    d2_font: FontFamily,
    options: &Options,
    limits: &RenderLimits,
) -> Result<Vec<u8>, RenderError> {
    let reading = Reading {
        font_family: "DejaVu Sans".to_owned(),
        // The default of browsers.
        font_size: 16.0,
        fontdb: fonts::all(),
        font_resolver: fonts::resolver(d2_font),
        // An untrusted source must not decide which files are read.
        image_href_resolver: ImageHrefResolver {
            resolve_data: Box::new(|_, _, _| None),
            resolve_string: Box::new(|_, _| None),
        },
        ..Reading::default()
    };
    let broken = |_| RenderError::new(ErrorCode::RendererFailed, "the SVG is not valid");
    let tree = Tree::from_str(svg, &reading).map_err(broken)?;
    let (width, height) = (f64::from(tree.size().width()), f64::from(tree.size().height()));
    let scale = match (options.width, options.scale) {
        (Some(pixels), _) => f64::from(pixels) / width,
        (None, scale) => scale.unwrap_or(1.0),
    };
    let (across, down) = ((width * scale).ceil().max(1.0), (height * scale).ceil().max(1.0));
    if !within(across * down, limits.pixels_max) {
        let max = limits.pixels_max;
        let message = format!("the image is {across} by {down} pixels; the limit is {max} pixels");
        return Err(RenderError::new(ErrorCode::TooLarge, message));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
    let pixmap = Pixmap::new(across as u32, down as u32);
    let too_large = || RenderError::new(ErrorCode::TooLarge, "the image size is not valid");
    let mut pixmap = pixmap.ok_or_else(too_large)?;
    #[expect(clippy::cast_possible_truncation, reason = "a scale needs no more digits")]
    let transform = Transform::from_scale(scale as f32, scale as f32);
    resvg::render(&tree, transform, &mut pixmap.as_mut());
    pixmap
        .encode_png()
        .map_err(|_| RenderError::new(ErrorCode::RendererFailed, "the PNG cannot be encoded"))
}

/// Returns false for NaN, too.
#[expect(clippy::cast_precision_loss, reason = "a limit needs no more digits")]
fn within(pixels: f64, max: u64) -> bool {
    pixels <= max as f64
}
