//! Encrypted blobs, and all kinds of tampering.

use proptest::prelude::*;

use super::*;
use crate::job::{JobId, TenantId, Timestamp};

const CHUNK: usize = CHUNK_BYTES;

fn path() -> BlobPath {
    BlobPath::new(&TenantId::default(), JobId::from_parts(Timestamp::from_millis(0), 7))
}

fn seal(key: &JobKey, path: &BlobPath, plain: &[u8], pieces: &[usize]) -> Vec<u8> {
    let mut sealer = Sealer::new(key, path, [7; SALT_BYTES]);
    let (mut left, mut written) = (Bytes::copy_from_slice(plain), Vec::new());
    let mut pieces = pieces.iter().copied().cycle();
    while !left.is_empty() {
        let mut piece = left.split_to(pieces.next().unwrap_or(usize::MAX).min(left.len()));
        while !piece.is_empty() {
            if let Some(chunk) = sealer.push(&mut piece) {
                written.extend_from_slice(&chunk);
            }
        }
    }
    written.extend_from_slice(&sealer.finish());
    written
}

fn open(
    key: &JobKey,
    path: &BlobPath,
    sealed: &[u8],
    size: usize,
    range: Range<usize>,
    pieces: &[usize],
) -> Result<Vec<u8>, Damage> {
    let layout = Layout::of(size as u64).unwrap();
    let range = layout.clamp(Some(range.start as u64..range.end as u64));
    let from = layout.sealed_range(&layout.chunks_of(&range));
    // To the end of the file, wherever that is, if the range ends with the blob.
    let is_to_end = from.end == layout.sealed_size();
    let [start, end] = [from.start, from.end].map(|at| place(at).min(sealed.len()));
    let end = if is_to_end { sealed.len() } else { end };
    let header = &sealed[..sealed.len().min(HEADER_BYTES)];
    let mut opener = Opener::new(key, path, header, layout, range)?;
    let mut left = Bytes::copy_from_slice(&sealed[start..end]);
    let (mut plain, mut pieces) = (Vec::new(), pieces.iter().copied().cycle());
    while !left.is_empty() {
        let mut piece = left.split_to(pieces.next().unwrap_or(usize::MAX).min(left.len()));
        while !piece.is_empty() {
            if let Some(chunk) = opener.push(&mut piece)? {
                plain.extend_from_slice(&chunk);
            }
        }
    }
    opener.finish()?;
    Ok(plain)
}

fn open_whole(
    key: &JobKey,
    path: &BlobPath,
    sealed: &[u8],
    size: usize,
) -> Result<Vec<u8>, Damage> {
    open(key, path, sealed, size, 0..size, &[])
}

fn place(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

/// Returns bytes that encode their position.
fn plain(size: usize) -> Vec<u8> {
    (0..size).map(|at| at.wrapping_mul(31).to_le_bytes()[1]).collect()
}

#[test]
fn empty_blob_is_one_empty_chunk() {
    let (key, path) = (JobKey::generate(), path());
    let sealed = seal(&key, &path, &[], &[]);
    assert_eq!(sealed.len(), 21 + 16);
    assert_eq!(open_whole(&key, &path, &sealed, 0), Ok(Vec::new()));
    assert_eq!(open_whole(&key, &path, &sealed[..21], 0), Err(Damage::Short));
}

#[test]
fn every_single_changed_byte_is_noticed() {
    let (key, path, size) = (JobKey::generate(), path(), CHUNK + 40);
    let sealed = seal(&key, &path, &plain(size), &[]);
    // All of the header, the boundaries and the last chunk; a sample of the rest.
    let places = (0..200).chain((200..CHUNK).step_by(509)).chain(CHUNK..sealed.len());
    for at in places {
        let mut changed = sealed.clone();
        changed[at] ^= 1_u8 << (at % 8);
        assert!(open_whole(&key, &path, &changed, size).is_err(), "byte {at}");
    }
}

#[test]
fn blob_that_was_cut_is_noticed_at_every_border() {
    let (key, path, size) = (JobKey::generate(), path(), 3 * CHUNK);
    let sealed = seal(&key, &path, &plain(size), &[]);
    let layout = Layout::of(size as u64).unwrap();
    for chunk in 0..layout.chunks() {
        let border = place(layout.sealed_range(&(chunk..chunk + 1)).start);
        for cut in [border - 1, border, border + 1] {
            assert!(open_whole(&key, &path, &sealed[..cut], size).is_err(), "cut at {cut}");
            // Nor is it accepted as a shorter blob.
            let shorter = place(chunk) * CHUNK;
            assert!(open_whole(&key, &path, &sealed[..cut], shorter).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn blob_that_was_extended_is_noticed() {
    let (key, path) = (JobKey::generate(), path());
    for size in [0, 10, CHUNK, CHUNK + 1] {
        let mut sealed = seal(&key, &path, &plain(size), &[]);
        sealed.push(0);
        assert!(open_whole(&key, &path, &sealed, size).is_err());
        assert!(open_whole(&key, &path, &sealed, size + 1).is_err());
    }
}

#[test]
fn chunks_that_changed_places_are_noticed() {
    let (key, path, size) = (JobKey::generate(), path(), 3 * CHUNK);
    let sealed = seal(&key, &path, &plain(size), &[]);
    let (header, chunks) = sealed.split_at(HEADER_BYTES);
    let chunks: Vec<&[u8]> = chunks.chunks(CHUNK + TAG_BYTES).collect();
    for order in [[1, 0, 2], [0, 2, 1], [2, 1, 0], [0, 0, 2], [0, 1, 1]] {
        let mixed = [header, chunks[order[0]], chunks[order[1]], chunks[order[2]]].concat();
        assert!(open_whole(&key, &path, &mixed, size).is_err(), "{order:?}");
    }
}

#[test]
fn blob_opens_under_its_own_path_and_key_only() {
    let (key, path) = (JobKey::generate(), path());
    let sealed = seal(&key, &path, b"hello", &[]);
    assert_eq!(open_whole(&key, &path, &sealed, 5).unwrap(), b"hello");
    assert_eq!(open_whole(&key, &self::path(), &sealed, 5), Err(Damage::Chunk(0)));
    assert_eq!(open_whole(&JobKey::generate(), &path, &sealed, 5), Err(Damage::Chunk(0)));
}

#[test]
fn version_that_is_not_known_is_named() {
    let (key, path) = (JobKey::generate(), path());
    let mut sealed = seal(&key, &path, b"hello", &[]);
    sealed[4] = 2;
    assert_eq!(open_whole(&key, &path, &sealed, 5), Err(Damage::Version(2)));
}

#[test]
fn blob_of_an_earlier_release_opens() {
    let key =
        crate::blob::keys::Keyring::parse("lhk_k_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
    let key = key.unwrap().unwrap(&unhex(WRAPPED), b"frozen").unwrap();
    let path = "acme/01K9XPQ8G0000000000000001A/000102030405060708090a0b0c0d0e0f".parse().unwrap();
    assert_eq!(open_whole(&key, &path, &unhex(SEALED), 5).unwrap(), b"hello");
}

proptest! {
    #[test]
    fn what_is_sealed_in_any_pieces_opens_in_any_others(
        size in 0..4 * CHUNK,
        sealed_by in prop::collection::vec(1..2 * CHUNK, 1..5),
        opened_by in prop::collection::vec(1..2 * CHUNK, 1..5),
    ) {
        let (key, path, plain) = (JobKey::generate(), path(), plain(size));
        let sealed = seal(&key, &path, &plain, &sealed_by);
        prop_assert_eq!(sealed.len() as u64, Layout::of(size as u64).unwrap().sealed_size());
        prop_assert_eq!(open(&key, &path, &sealed, size, 0..size, &opened_by).unwrap(), plain);
    }

    #[test]
    fn any_range_holds_what_the_whole_has_there(
        size in 0..4 * CHUNK, start: usize, end: usize, pieces in 1..2 * CHUNK,
    ) {
        let (key, path, plain) = (JobKey::generate(), path(), plain(size));
        let (start, end) = (start % (size + 1), end % (size + 1));
        let (start, end) = (start.min(end), start.max(end));
        let sealed = seal(&key, &path, &plain, &[]);
        let opened = open(&key, &path, &sealed, size, start..end, &[pieces]).unwrap();
        prop_assert_eq!(opened, &plain[start..end]);
    }

    #[test]
    fn any_size_but_its_own_is_refused(size in 0..2 * CHUNK, other in 0..3 * CHUNK) {
        prop_assume!(size != other);
        let (key, path) = (JobKey::generate(), path());
        let sealed = seal(&key, &path, &plain(size), &[]);
        prop_assert!(open_whole(&key, &path, &sealed, other).is_err());
    }

    #[test]
    fn any_changed_bit_is_noticed(size in 0..2 * CHUNK, at: usize, bit in 0..8_u32) {
        let (key, path) = (JobKey::generate(), path());
        let mut sealed = seal(&key, &path, &plain(size), &[]);
        let at = at % sealed.len();
        sealed[at] ^= 1_u8 << bit;
        prop_assert!(open_whole(&key, &path, &sealed, size).is_err());
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Written by version 0.1.0 and never to be changed: stored blobs look like this.
const WRAPPED: &str = "01016b66a4e823a51aad8ba6d34fff54c44d6f2d4f4a3a5288787022ed118c21b44e2e574142\
    8d6e069040628ee9beb64ae05d2831337932c3818c542f3eb20ae74fdf69d20e78adaf1661";
const SEALED: &str =
    "4c484200010707070707070707070707070707070764a3eaeb2b696302094b5cef327fa6a91dc74ee32d";
