//! Blob encryption: authenticated chunk by chunk, so that a blob that was truncated, extended,
//! spliced, moved or changed in a single bit is rejected.
//!
//! An encrypted blob begins with four magic bytes, a version and sixteen random bytes, its salt. The
//! key is derived from the job's key, the salt and the path, so that no two blobs share one. A
//! chunk's nonce is its number and whether it is the last.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::BlobPath;
use super::cipher::{Cipher, NONCE_BYTES, TAG_BYTES};
use super::keys::JobKey;
use super::layout::{CHUNK_BYTES, HEADER_BYTES, Layout};

const MAGIC: [u8; 4] = *b"LHB\x00";
const VERSION: u8 = 1;
/// Purpose of a blob's derived key, together with its path.
const PURPOSE: &[u8] = b"longhaul blob v1";

pub(super) const SALT_BYTES: usize = 16;

/// Reasons why an encrypted blob is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("it does not begin like a blob")]
    Header,
    #[error("it is of version {0}, which this program does not know")]
    Version(u8),
    #[error("chunk {0} was changed, or belongs to another blob")]
    Chunk(u64),
    #[error("it is longer than it should be")]
    Long,
    #[error("it is shorter than it should be")]
    Short,
}

fn cipher_of(key: &JobKey, path: &BlobPath, salt: &[u8]) -> Cipher {
    key.derive(salt, &[PURPOSE, path.to_string().as_bytes()])
}

fn nonce_of(chunk: u64, is_last: bool) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    if let Some(number) = nonce.first_chunk_mut() {
        *number = chunk.to_be_bytes();
    }
    if let Some(last) = nonce.last_mut() {
        *last = u8::from(is_last);
    }
    nonce
}

/// Encrypts a blob from start to end.
pub(super) struct Sealer {
    cipher: Cipher,
    /// Index of the chunk that is being filled.
    chunk: u64,
    /// Plain text of that chunk; the header before the first.
    filled: BytesMut,
    header_bytes: usize,
}

impl Sealer {
    /// Starts a blob. The salt must be fresh.
    pub(super) fn new(key: &JobKey, path: &BlobPath, salt: [u8; SALT_BYTES]) -> Self {
        let mut filled = BytesMut::with_capacity(HEADER_BYTES);
        filled.extend_from_slice(&MAGIC);
        filled.extend_from_slice(&[VERSION]);
        filled.extend_from_slice(&salt);
        let header_bytes = filled.len();
        Self { cipher: cipher_of(key, path, &salt), chunk: 0, filled, header_bytes }
    }

    /// Takes bytes from `plain` up to the end of the chunk. A full chunk is returned encrypted once
    /// more bytes follow, because it may be the last. Call until `plain` is empty.
    pub(super) fn push(&mut self, plain: &mut Bytes) -> Option<Bytes> {
        let room = CHUNK_BYTES + self.header_bytes - self.filled.len();
        if room == 0 && !plain.is_empty() {
            return Some(self.seal(false));
        }
        let piece = plain.split_to(room.min(plain.len()));
        if self.filled.len() == self.header_bytes {
            self.filled.reserve(CHUNK_BYTES + TAG_BYTES);
        }
        self.filled.extend_from_slice(&piece);
        None
    }

    pub(super) fn finish(mut self) -> Bytes {
        self.seal(true)
    }

    fn seal(&mut self, is_last: bool) -> Bytes {
        let nonce = nonce_of(self.chunk, is_last);
        let text = self.filled.get_mut(self.header_bytes..).unwrap_or_default();
        let tag = self.cipher.seal(nonce, &[], text);
        self.filled.extend_from_slice(&tag);
        self.chunk += 1;
        self.header_bytes = 0;
        std::mem::take(&mut self.filled).freeze()
    }
}

/// Decrypts a blob, or a range of it.
pub(super) struct Opener {
    cipher: Cipher,
    layout: Layout,
    /// The requested plain bytes.
    range: Range<u64>,
    /// Chunks of the range that are not decrypted yet.
    chunks: Range<u64>,
    /// Received bytes of the first of them.
    filled: BytesMut,
}

impl Opener {
    /// Starts with the blob's header. The pushed bytes must begin with the first chunk of the
    /// range.
    pub(super) fn new(
        key: &JobKey,
        path: &BlobPath,
        header: &[u8],
        layout: Layout,
        range: Range<u64>,
    ) -> Result<Self, Damage> {
        let rest = header.strip_prefix(&MAGIC).ok_or(Damage::Header)?;
        let (version, salt) = rest.split_first().ok_or(Damage::Header)?;
        if *version != VERSION {
            return Err(Damage::Version(*version));
        }
        if salt.len() != SALT_BYTES {
            return Err(Damage::Header);
        }
        let (cipher, chunks) = (cipher_of(key, path, salt), layout.chunks_of(&range));
        Ok(Self { cipher, layout, range, chunks, filled: BytesMut::new() })
    }

    /// Takes bytes from `sealed` up to the end of a chunk, and returns its part of the range once
    /// it is complete and authenticated. Call until `sealed` is empty.
    pub(super) fn push(&mut self, sealed: &mut Bytes) -> Result<Option<Bytes>, Damage> {
        if self.chunks.is_empty() {
            return if sealed.is_empty() { Ok(None) } else { Err(Damage::Long) };
        }
        let chunk = self.chunks.start;
        let whole = self.layout.plain_bytes(chunk) + TAG_BYTES;
        self.filled.reserve(whole - self.filled.len());
        self.filled
            .extend_from_slice(&sealed.split_to((whole - self.filled.len()).min(sealed.len())));
        if self.filled.len() < whole {
            return Ok(None);
        }
        let nonce = nonce_of(chunk, chunk + 1 == self.layout.chunks());
        let mut opened = std::mem::take(&mut self.filled);
        self.cipher.open(nonce, &[], &mut opened).map_err(|_| Damage::Chunk(chunk))?;
        self.chunks.start += 1;
        Ok(Some(opened.freeze().slice(self.layout.range_in(chunk, &self.range))))
    }

    pub(super) fn finish(&self) -> Result<(), Damage> {
        if self.chunks.is_empty() { Ok(()) } else { Err(Damage::Short) }
    }
}

#[cfg(test)]
mod tests;
