//! Encryption of short secrets in the database, for example webhook signing secrets.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::{KeyError, Keyring};

const PURPOSE: &[u8] = b"longhaul text v1";

impl Keyring {
    /// Encrypts a text. It can only be decrypted with the same context: owner and purpose, as
    /// bytes.
    pub fn seal_text(&self, text: &str, context: &[u8]) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.seal(PURPOSE, text.as_bytes(), context))
    }

    /// Decrypts the output of [`Keyring::seal_text`] with the same context.
    pub fn open_text(&self, sealed: &str, context: &[u8]) -> Result<Zeroizing<String>, KeyError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(sealed).map_err(|_| KeyError::Damaged)?;
        let opened = self.open_sealed(PURPOSE, &bytes, context)?;
        let text = std::str::from_utf8(&opened).map_err(|_| KeyError::Damaged)?;
        Ok(Zeroizing::new(text.to_owned()))
    }

    /// Returns the id of the server key that a text was encrypted with.
    pub fn id_of_text(sealed: &str) -> Option<String> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        Self::id_of_wrapped(&bytes).map(str::to_owned)
    }
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
        assert_eq!(Keyring::id_of_text(&sealed).as_deref(), Some(keys.current_id()));
        assert!(keys.open_text(&sealed, b"other").is_err());
        assert!(Keyring::generate().open_text(&sealed, b"tenant").is_err());
        assert!(keys.open_text("not sealed", b"tenant").is_err());
        assert!(keys.open_text("", b"tenant").is_err());
    }
}
