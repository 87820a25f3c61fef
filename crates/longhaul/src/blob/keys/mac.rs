//! Keyed digests of secrets that the server issues, so that the database alone allows neither their
//! use nor offline guessing.

use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac::{self, HMAC_SHA256};

use super::{Keyring, ServerKey};

const MAC_PURPOSE: &[u8] = b"longhaul mac v1";
const MAC_BYTES: usize = 32;

impl Keyring {
    /// Computes the digest of a message with the current key, for one purpose.
    pub fn mac(&self, purpose: &[u8], message: &[u8]) -> [u8; MAC_BYTES] {
        digest(&self.current, purpose, message)
    }

    /// Computes the digest with the key of this id; `None` if the keyring does not have it.
    pub fn mac_by(&self, id: &str, purpose: &[u8], message: &[u8]) -> Option<[u8; MAC_BYTES]> {
        self.key(id).map(|key| digest(key, purpose, message))
    }
}

#[expect(clippy::expect_used, reason = "all lengths are the ones that the algorithms ask for")]
fn digest(key: &ServerKey, purpose: &[u8], message: &[u8]) -> [u8; MAC_BYTES] {
    let extracted = Salt::new(HKDF_SHA256, MAC_PURPOSE).extract(&*key.key);
    let info = [key.id.as_bytes(), purpose];
    let derived = extracted.expand(&info, HMAC_SHA256).expect("a key is short");
    let mut bytes = [0; MAC_BYTES];
    bytes.copy_from_slice(hmac::sign(&hmac::Key::from(derived), message).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_key_purpose_and_message() {
        let keys = Keyring::generate();
        let digest = keys.mac(b"p", b"m");
        assert_eq!(keys.mac_by(keys.current_id(), b"p", b"m"), Some(digest));
        assert_ne!(keys.mac(b"q", b"m"), digest);
        assert_ne!(keys.mac(b"p", b"n"), digest);
        assert_ne!(Keyring::generate().mac(b"p", b"m"), digest);
        assert_eq!(keys.mac_by("nobody", b"p", b"m"), None);
    }
}
