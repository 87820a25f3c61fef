//! Encryption of short secrets in the database, for example webhook signing secrets.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::{KeyError, Keyring, SALT_BYTES, ServerKey, is_id};
use crate::blob::cipher::{Cipher, NONCE_BYTES, random};

/// Version of the format.
const VERSION: u8 = 1;
/// Purpose of a derived key.
const PURPOSE: &[u8] = b"longhaul text v1";

impl Keyring {
    /// Encrypts a text. It can only be decrypted with the same context: owner and purpose, as
    /// bytes.
    pub fn seal_text(&self, text: &str, context: &[u8]) -> String {
        let salt: [u8; SALT_BYTES] = random();
        let mut sealed = text.as_bytes().to_vec();
        let cipher = sealing(&self.current, &salt);
        let tag = cipher.seal([0; NONCE_BYTES], context, &mut sealed);
        let id = self.current.id.as_bytes();
        let mut bytes = vec![VERSION, u8::try_from(id.len()).unwrap_or(0)];
        for part in [id, &salt, &sealed, &tag] {
            bytes.extend_from_slice(part);
        }
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decrypts the output of [`Keyring::seal_text`] with the same context.
    pub fn open_text(&self, sealed: &str, context: &[u8]) -> Result<Zeroizing<String>, KeyError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(sealed).map_err(|_| KeyError::Damaged)?;
        let (id, salt, rest) = parts(&bytes).ok_or(KeyError::Damaged)?;
        let mut keys = std::iter::once(&self.current).chain(&self.former);
        let by = keys.find(|key| key.id == id);
        let by = by.ok_or_else(|| KeyError::Unknown { id: id.to_owned() })?;
        let mut text = Zeroizing::new(rest.to_vec());
        let opened = sealing(by, salt)
            .open([0; NONCE_BYTES], context, &mut text)
            .map_err(|_| KeyError::Damaged)?;
        let opened = std::str::from_utf8(opened).map_err(|_| KeyError::Damaged)?;
        Ok(Zeroizing::new(opened.to_owned()))
    }
}

fn sealing(key: &ServerKey, salt: &[u8]) -> Cipher {
    Cipher::derive(&key.key, salt, &[PURPOSE, key.id.as_bytes()])
}

/// Splits an encrypted text into id, salt and ciphertext.
fn parts(bytes: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let (&[version, id_bytes], rest) = bytes.split_first_chunk::<2>()?;
    let (id, rest) = rest.split_at_checked(usize::from(id_bytes))?;
    let (salt, sealed) = rest.split_at_checked(SALT_BYTES)?;
    let id = std::str::from_utf8(id).ok().filter(|id| is_id(id))?;
    (version == VERSION).then_some((id, salt, sealed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_opens_in_its_own_context_alone() {
        let keys = Keyring::generate();
        let sealed = keys.seal_text("whsec_secret", b"tenant");
        assert!(!sealed.contains("whsec"));
        assert_ne!(keys.seal_text("whsec_secret", b"tenant"), sealed);
        assert_eq!(keys.open_text(&sealed, b"tenant").unwrap().as_str(), "whsec_secret");
        assert!(keys.open_text(&sealed, b"other").is_err());
        assert!(Keyring::generate().open_text(&sealed, b"tenant").is_err());
        assert!(keys.open_text("not sealed", b"tenant").is_err());
        assert!(keys.open_text("", b"tenant").is_err());
    }
}
