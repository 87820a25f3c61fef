//! Resource limits of one diagram.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ErrorCode, RenderError};

/// Limits of one diagram. [`render`](crate::render) checks the sizes;
/// [`run_worker`](crate::run_worker) also limits time and memory of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderLimits {
    /// Source length. Defaults to 256 KiB.
    pub source_bytes_max: usize,
    /// Length of the image, and of the SVG that a PNG is rasterized from. Defaults to 16 MiB.
    pub output_bytes_max: usize,
    /// Pixels of a PNG, at four bytes of memory each. Defaults to 40 million.
    pub pixels_max: u64,
    /// Wall clock and CPU time. Defaults to 10 s.
    pub time_max: Duration,
    /// Address space of a worker process, including its program. Defaults to 2 GiB.
    pub memory_bytes_max: u64,
}

impl Default for RenderLimits {
    fn default() -> Self {
        Self {
            source_bytes_max: 256 * 1024,
            output_bytes_max: 16 * 1024 * 1024,
            pixels_max: 40_000_000,
            time_max: Duration::from_secs(10),
            memory_bytes_max: 2 * 1024 * 1024 * 1024,
        }
    }
}

impl RenderLimits {
    pub(crate) fn check_output<T: AsRef<[u8]>>(&self, image: T) -> Result<T, RenderError> {
        let (bytes, max) = (image.as_ref().len(), self.output_bytes_max);
        if bytes > max {
            let message = format!("the image has {bytes} bytes; the limit is {max}");
            return Err(RenderError::new(ErrorCode::TooLarge, message));
        }
        Ok(image)
    }
}
