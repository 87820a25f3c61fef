//! How much a picture may cost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Code, RenderError};

/// Bounds of one picture. The library keeps to the sizes; time and memory bound the process that it runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The longest source.
    pub source_bytes_max: usize,
    /// The longest picture, and the longest SVG that a PNG is painted from.
    pub output_bytes_max: usize,
    /// The most pixels of a PNG; each takes four bytes of memory.
    pub pixels_max: u64,
    /// How long drawing may take, by the clock and of the processor.
    pub time_max: Duration,
    /// How much memory a worker may have, with its program and all that it has reserved.
    pub memory_bytes_max: u64,
}

impl Default for Limits {
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

impl Limits {
    /// Lets through what is not too long to be handed out.
    pub(super) fn output<T: AsRef<[u8]>>(&self, picture: T) -> Result<T, RenderError> {
        let (bytes, max) = (picture.as_ref().len(), self.output_bytes_max);
        if bytes > max {
            let why = format!("the picture has {bytes} bytes, and {max} are allowed");
            return Err(RenderError::new(Code::TooLarge, why));
        }
        Ok(picture)
    }
}
