//! The layout of an encrypted blob: pure arithmetic.
//!
//! ```text
//! sealed:  header (21) | chunk 0 (64 KiB + 16) | chunk 1 (64 KiB + 16) | … | last chunk (rest + 16)
//! ```

use std::ops::Range;

use super::cipher::TAG_BYTES;

/// Maximum size of a blob before encryption. The ten thousand parts of an upload hold more.
pub const BLOB_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
/// Plain bytes per chunk.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;
pub(super) const HEADER_BYTES: usize = 21;

// The same as 64-bit offsets.
const CHUNK: u64 = CHUNK_BYTES as u64;
const HEADER: u64 = HEADER_BYTES as u64;
const TAG: u64 = TAG_BYTES as u64;

/// The layout of an encrypted blob whose plain size is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    size: u64,
}

impl Layout {
    /// Returns the layout of a blob of this size; `None` if it is too large.
    pub(super) fn of(size: u64) -> Option<Self> {
        (size <= BLOB_BYTES_MAX).then_some(Self { size })
    }

    /// Returns the number of chunks. An empty blob has one empty chunk.
    pub(super) fn chunks(self) -> u64 {
        self.size.div_ceil(CHUNK).max(1)
    }

    pub(super) fn sealed_size(self) -> u64 {
        HEADER + self.size + self.chunks() * TAG
    }

    pub(super) fn clamp(self, range: Option<Range<u64>>) -> Range<u64> {
        let range = range.unwrap_or(0..self.size);
        let end = range.end.min(self.size);
        range.start.min(end)..end
    }

    /// Returns the chunks that contain a clamped range, at least one.
    pub(super) fn chunks_of(self, range: &Range<u64>) -> Range<u64> {
        let first = (range.start / CHUNK).min(self.chunks() - 1);
        first..range.end.div_ceil(CHUNK).max(first + 1)
    }

    /// Returns the offsets of a chunk's plain bytes.
    fn plain_range(self, chunk: u64) -> Range<u64> {
        let start = chunk * CHUNK;
        start.min(self.size)..(start + CHUNK).min(self.size)
    }

    /// Returns the number of a chunk's plain bytes.
    pub(super) fn plain_bytes(self, chunk: u64) -> usize {
        let plain = self.plain_range(chunk);
        in_chunk(plain.end - plain.start)
    }

    /// Returns the part of a range that lies in a chunk, as offsets within it.
    pub(super) fn range_in(self, chunk: u64, range: &Range<u64>) -> Range<usize> {
        let plain = self.plain_range(chunk);
        let backend = |at: u64| in_chunk(at.clamp(plain.start, plain.end) - plain.start);
        backend(range.start)..backend(range.end)
    }

    /// Returns the encrypted bytes of these chunks.
    pub(super) fn sealed_range(self, chunks: &Range<u64>) -> Range<u64> {
        let start = HEADER + chunks.start * (CHUNK + TAG);
        let end = HEADER + chunks.end * (CHUNK + TAG);
        start..end.min(self.sealed_size())
    }
}

/// Converts an offset within a chunk, or its length.
fn in_chunk(bytes: u64) -> usize {
    usize::try_from(bytes).map_or(CHUNK_BYTES, |bytes| bytes.min(CHUNK_BYTES))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_at_the_borders_of_chunks() {
        let sealed = |size| Layout::of(size).unwrap().sealed_size();
        assert_eq!(sealed(0), 21 + 16);
        assert_eq!(sealed(1), 21 + 1 + 16);
        assert_eq!(sealed(CHUNK), 21 + CHUNK + 16);
        assert_eq!(sealed(CHUNK + 1), 21 + CHUNK + 1 + 32);
        assert_eq!(Layout::of(BLOB_BYTES_MAX + 1), None);
    }

    #[test]
    fn range_beyond_the_end_is_cut_off() {
        let layout = Layout::of(10).unwrap();
        assert_eq!(layout.clamp(None), 0..10);
        assert_eq!(layout.clamp(Some(3..20)), 3..10);
        assert_eq!(layout.clamp(Some(20..30)), 10..10);
        assert_eq!(layout.chunks_of(&(10..10)), 0..1);
    }

    proptest! {
        #[test]
        fn chunks_lie_end_to_end(size in 0..5 * CHUNK) {
            let layout = Layout::of(size).unwrap();
            let (mut plain, mut sealed) = (0, HEADER);
            for chunk in 0..layout.chunks() {
                let (of_plain, of_sealed) =
                    (layout.plain_range(chunk), layout.sealed_range(&(chunk..chunk + 1)));
                prop_assert_eq!((of_plain.start, of_sealed.start), (plain, sealed));
                prop_assert_eq!(
                    of_sealed.end - of_sealed.start,
                    of_plain.end - of_plain.start + TAG
                );
                (plain, sealed) = (of_plain.end, of_sealed.end);
            }
            prop_assert_eq!((plain, sealed), (size, layout.sealed_size()));
        }

        #[test]
        fn chunks_of_a_range_hold_it_and_no_more(
            size in 1..5 * CHUNK, start: u64, length: u64,
        ) {
            let layout = Layout::of(size).unwrap();
            let start = start % size;
            let range = start..start + 1 + length % (size - start);
            let chunks = layout.chunks_of(&range);
            prop_assert!(layout.plain_range(chunks.start).contains(&range.start));
            prop_assert!(layout.plain_range(chunks.end - 1).contains(&(range.end - 1)));
        }
    }
}
