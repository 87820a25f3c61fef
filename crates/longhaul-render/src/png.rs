//! From SVG to pixels.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{ImageHrefResolver, Options as Reading, Tree};

use super::{ErrorCode, Limits, Options, RenderError, fonts};

/// Paints an SVG that was [cleaned](super::sanitize).
pub(super) fn rasterize(
    svg: &str,
    options: &Options,
    limits: &Limits,
) -> Result<Vec<u8>, RenderError> {
    let reading = Reading {
        font_family: "DejaVu Sans".to_owned(),
        // What browsers have.
        font_size: 16.0,
        fontdb: fonts::all(),
        font_resolver: fonts::resolver(),
        // There is no file to be read, and nobody else's text decides whether one is.
        image_href_resolver: ImageHrefResolver {
            resolve_data: Box::new(|_, _, _| None),
            resolve_string: Box::new(|_, _| None),
        },
        ..Reading::default()
    };
    let broken = |_| RenderError::new(ErrorCode::RendererFailed, "the image cannot be rasterized");
    let tree = Tree::from_str(svg, &reading).map_err(broken)?;
    let (width, height) = (f64::from(tree.size().width()), f64::from(tree.size().height()));
    let scale = match (options.width, options.scale) {
        (Some(asked), _) => f64::from(asked) / width,
        (None, asked) => asked.unwrap_or(1.0),
    };
    let (across, down) = ((width * scale).ceil().max(1.0), (height * scale).ceil().max(1.0));
    if !within(across * down, limits.pixels_max) {
        let max = limits.pixels_max;
        let why = format!("the image would be {across} by {down} pixels, and {max} are allowed");
        return Err(RenderError::new(ErrorCode::TooLarge, why));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
    let pixmap = Pixmap::new(across as u32, down as u32);
    let too_large =
        || RenderError::new(ErrorCode::TooLarge, "the image has no size that can be rasterized");
    let mut pixmap = pixmap.ok_or_else(too_large)?;
    #[expect(clippy::cast_possible_truncation, reason = "a scale needs no more digits")]
    let transform = Transform::from_scale(scale as f32, scale as f32);
    resvg::render(&tree, transform, &mut pixmap.as_mut());
    pixmap
        .encode_png()
        .map_err(|_| RenderError::new(ErrorCode::RendererFailed, "the image cannot be written"))
}

/// Also false of what is not a number.
#[expect(clippy::cast_precision_loss, reason = "a limit needs no more digits")]
fn within(pixels: f64, max: u64) -> bool {
    pixels <= max as f64
}
