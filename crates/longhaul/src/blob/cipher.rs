//! AES-256-GCM, HKDF and randomness from ring, the library that TLS uses, with hardware AES.

use rand::rand_core::UnwrapErr;
use rand::{Rng as _, rngs::SysRng};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

pub(super) const KEY_BYTES: usize = 32;
pub(super) const TAG_BYTES: usize = 16;
pub(super) const NONCE_BYTES: usize = 12;

/// Key bytes, which are overwritten when dropped.
pub(super) type SecretKey = Zeroizing<[u8; KEY_BYTES]>;

/// The ciphertext was changed, or encrypted with another key or context.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DecryptionError;

/// An expanded key. ring does not overwrite expanded keys, so that one is used for a single blob or
/// wrapping only.
pub(super) struct Cipher(LessSafeKey);

impl Cipher {
    /// Derives the key of a secret for one salt and one purpose. Each salt gives another key, so
    /// that nonces must be unique per salt only.
    #[expect(clippy::expect_used, reason = "all lengths are the ones that the algorithms ask for")]
    pub(super) fn derive(secret: &SecretKey, salt: &[u8], purpose: &[&[u8]]) -> Self {
        struct Length;
        impl KeyType for Length {
            fn len(&self) -> usize {
                KEY_BYTES
            }
        }
        let mut key = SecretKey::default();
        let extracted = Salt::new(HKDF_SHA256, salt).extract(&**secret);
        let expanded = extracted.expand(purpose, Length).expect("a key is short");
        expanded.fill(&mut *key).expect("the length is that of the key");
        Self(LessSafeKey::new(
            UnboundKey::new(&AES_256_GCM, &*key).expect("the length is that of the algorithm"),
        ))
    }

    /// Encrypts in place and returns the tag, which also authenticates the context.
    #[expect(clippy::expect_used, reason = "only a text of more than 64 GiB is refused")]
    pub(super) fn seal(
        &self,
        nonce: [u8; NONCE_BYTES],
        context: &[u8],
        text: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self.0.seal_in_place_separate_tag(nonce, Aad::from(context), text);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(sealed.expect("the text is a chunk or a key").as_ref());
        tag
    }

    /// Decrypts the output of [`Cipher::seal`] and its tag in place.
    pub(super) fn open<'a>(
        &self,
        nonce: [u8; NONCE_BYTES],
        context: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], DecryptionError> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place(nonce, Aad::from(context), sealed).map_err(|_| DecryptionError)
    }
}

/// Fills `bytes` from the operating system's random source. Panics without one.
pub(super) fn fill_random(bytes: &mut [u8]) {
    UnwrapErr(SysRng).fill_bytes(bytes);
}

/// Returns random bytes that are not secret.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill_random(&mut bytes);
    bytes
}
