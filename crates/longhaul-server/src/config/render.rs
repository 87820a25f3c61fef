//! Diagrams.

use std::time::Duration;

use longhaul::job::Limits;

use super::check::{Check, MOMENT};
use super::value::Entry;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
/// More at once than any machine has use for.
const WORKERS: u32 = 1_000;

/// What diagrams may cost, and how long they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderConfig {
    /// Diagrams that are drawn at once in this process.
    pub workers: usize,
    /// How long one may take.
    pub timeout: Duration,
    /// How much memory the process may have that draws it.
    pub memory_bytes_max: u64,
    /// The longest source.
    pub source_bytes_max: usize,
    /// The longest picture.
    pub output_bytes_max: usize,
    /// The most pixels of a PNG.
    pub pixels_max: u64,
    /// How long a picture and its short link are kept.
    pub retention: Duration,
    /// Whether a short link is all that somebody needs.
    pub public_links: bool,
}

/// The inner `None` is no diagrams at all.
#[expect(clippy::option_option, reason = "wrong, none and some are three things")]
pub(super) fn render(check: &mut Check) -> Option<Option<RenderConfig>> {
    let enabled = check.read("render.enabled", Entry::switch);
    let workers = check.count("render.workers", 0..=WORKERS);
    let timeout = check.duration("render.timeout", MOMENT..=Duration::from_mins(10));
    // Below it the program itself does not fit.
    let memory = check.bytes("render.memory_max", 512 * MIB..=64 * GIB);
    let source = check.size("render.source_bytes_max", 1..=16 * MIB);
    let output = check.size("render.output_bytes_max", KIB..=256 * MIB);
    let pixels = check.read("render.pixels_max", |entry, key| entry.count(key, 1..=400_000_000));
    let retention = check.duration("render.retention", MOMENT..=Limits::default().retention_max);
    let public_links = check.read("render.public_links", Entry::switch);
    let config = RenderConfig {
        workers: match workers? {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            given => given,
        },
        timeout: timeout?,
        memory_bytes_max: memory?,
        source_bytes_max: source?,
        output_bytes_max: output?,
        pixels_max: pixels?.into(),
        retention: retention?,
        public_links: public_links?,
    };
    Some((enabled? && cfg!(feature = "render")).then_some(config))
}
